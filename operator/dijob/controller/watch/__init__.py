"""Receives DIJobs from kopf's watch, and finds what the watch has missed."""
