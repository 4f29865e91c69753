"""Deletes a rank of a running job on purpose, and measures how the job recovers.

A drill shows users, before a node is really lost, whether their job survives the loss, and how much
work the job repeats.
"""
