"""The pure core: what is observed, what is decided, what is said. No I/O, no clock, no Kubernetes
client.
"""
