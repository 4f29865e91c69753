"""The HTTP server that a running job asks for another size, and tells how far it is: the paths of
DI-orchestrator's di-server (pkg/server/server.go), with authentication.

A request's way: app (routes) -> callers (who asks, for which job) -> sizes or reports. It keeps
nothing that another replica of it would need.
"""
