"""`kubectl dijob`: the command line to run, inspect and troubleshoot DIJobs.

Every command talks to the API server with the user's own kubeconfig and permissions. No service of
the operator is involved, so there is nothing extra to secure (docs/decisions/032).
"""
