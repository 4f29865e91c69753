"""Decides who is a member: the active peer list, lost ranks, ranks that join, counted failures."""
