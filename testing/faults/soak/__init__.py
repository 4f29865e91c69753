"""Runs random jobs and faults for a long time, to find leaks: `make soak`."""
