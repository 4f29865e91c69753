"""Runs a DIJob on this machine without Kubernetes, with a process group for each rank.

The variables and the outcome come from the operator's own code, so that a program runs the same way
as in a cluster (docs/decisions/033).
"""
