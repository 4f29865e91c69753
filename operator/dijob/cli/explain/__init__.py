"""`kubectl dijob explain` shows what a DIJob becomes, before anything is created.

The pods and variables are rendered by the operator's own code (dijob.core), so the answer cannot
differ from what the operator does.
"""
