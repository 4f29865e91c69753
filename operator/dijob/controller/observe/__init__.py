"""Collects the input of a plan: cached objects, events, and the operator's memory."""
