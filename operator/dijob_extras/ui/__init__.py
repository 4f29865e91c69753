"""`kubectl dijob ui`: a read-only web page, served from the user's machine, or in a cluster.

In both cases the API server decides what each user may see. On the user's machine, the page uses
the user's kubeconfig (docs/decisions/036). In a cluster, each request has the permissions of the
page's user (cluster/, docs/decisions/068).
"""
