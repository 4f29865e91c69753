"""Collects what a plan is made from: cached objects, events, and what the operator remembers."""
