"""Access to the apiserver: the connection, requests and their limits, kinds of objects, the
apiserver's clock.

The controller, the HTTP server and the history use this package. The package imports none of them,
and does not need kopf.
"""
