"""Deletes a rank of a running job on purpose, and measures how the job recovers.

Before a node is really lost, users learn from a drill whether their job survives the loss, and how
much work the job repeats.
"""
