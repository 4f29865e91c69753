"""The channel: launchers report to the operator over HTTP, and receive their peer lists.

The channel is the fast way to reach the pods. If a pod has no channel, or its launcher does not
connect, the operator uses the API server instead (docs/decisions/049).
"""
