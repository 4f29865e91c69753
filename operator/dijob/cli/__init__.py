"""`kubectl dijob`: the command-line tool for running, inspecting and troubleshooting DIJobs.

Every command talks to the API server with the user's own kubeconfig and permissions. No service of
the operator is involved, so there is nothing extra to secure (docs/decisions/032).
"""
