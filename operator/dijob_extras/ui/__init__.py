"""`kubectl dijob ui`: a read-only web page, served from the user's machine.

A dashboard in the cluster would have an account that may read all jobs, and would need logins,
roles and TLS. Here the apiserver decides what each user may see (docs/decisions/036).
"""
