"""`kubectl dijob ui`: a read-only web page, served from the user's machine, or in a cluster.

In both cases the API server decides what each user may see. On the user's machine, the page has the
user's kubeconfig (docs/decisions/036). In a cluster, each request has the permissions of the user
of the page (cluster/, docs/decisions/068).
"""
