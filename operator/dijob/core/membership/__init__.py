"""Decides which ranks are members: the active peer list, lost ranks, ranks that join, counted
failures.
"""
