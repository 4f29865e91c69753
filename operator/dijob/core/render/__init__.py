"""Renders what the operator writes: the objects that it creates, and peer lists as annotations.

The created objects depend only on the job and on the operator's settings, so tests can compare them
with the objects that an older version created (tests/golden).
"""
