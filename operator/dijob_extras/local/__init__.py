"""Runs a DIJob on this machine without Kubernetes, with a process group for each rank.

The variables and the outcome come from the operator's own code, so that a local run is the same
program as in a cluster (docs/decisions/033).
"""
