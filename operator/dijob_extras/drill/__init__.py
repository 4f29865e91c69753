"""Deletes a rank of a running job on purpose, and measures how the job recovers.

Users learn from a drill whether their job survives a loss, and how much work it repeats, before a
node is lost.
"""
