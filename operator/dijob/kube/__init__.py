"""What talks to the apiserver: the connection, requests and their limits, kinds, its clock.

The controller and the HTTP server use it. It imports neither of them, and does not need kopf.
"""
