"""The HTTP server through which a running job changes its size and reports its progress.

It has the paths of DI-orchestrator's di-server (pkg/server/server.go), plus authentication and
authorization. A request passes through the modules app (routes) and callers (the sender, and its
permissions for the job), and then sizes or reports. The server keeps no state that another replica
of it would need, so replicas can be added without coordination (docs/decisions/029).
"""
