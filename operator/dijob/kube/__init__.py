"""Access to the apiserver: the connection, requests and their limits, kinds of objects, the
apiserver's clock.

The controller and the HTTP server use it. This package imports neither of them, and does not need
kopf.
"""
