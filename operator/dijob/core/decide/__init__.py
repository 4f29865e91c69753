"""Decides what to do next: the plan of a reconciliation, and the rules that it consists of."""
