"""Decides what to do next: the plan of a reconciliation, and the rules that make up the plan."""
