"""Runs a DIJob on this machine, without Kubernetes: a process group for each rank."""
