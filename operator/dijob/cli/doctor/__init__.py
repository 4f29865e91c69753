"""`kubectl dijob doctor`: checks a job for problems, and names a remedy for each.

collect.py does all input and output, and returns the `Evidence`. The checks are pure functions from
evidence to findings, so that tests need neither a cluster nor pods (docs/decisions/035).
"""
