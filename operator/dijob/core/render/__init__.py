"""Renders what is written: the objects that the operator creates, and a peer list as annotations.

Objects that are created depend only on the job and on the operator's settings, so tests can compare
them with those of an older version (tests/golden).
"""
