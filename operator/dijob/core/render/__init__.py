"""Renders what the operator writes: the objects that it creates, and peer lists as annotations.

Objects that are created depend only on the job and on the operator's settings, so tests can compare
them with those of an older version (tests/golden).
"""
