"""Code shared by the operator, the HTTP server, the history and the page in the cluster, such as
the clock and safe logs.
"""
