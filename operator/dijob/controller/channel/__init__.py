"""The channel: launchers report to the operator over HTTP, and receive their peer lists.

It is the fast way to the pods. The operator reads pods without a channel, and launchers that do not
connect, through the API server (docs/decisions/049).
"""
