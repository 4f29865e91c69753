"""The HTTP server through which a running job changes its size and reports its progress.

The server has the same paths as DI-orchestrator's di-server (pkg/server/server.go), but also
authenticates and authorizes each request. The module `app` routes each request. The module
`callers` identifies the sender and checks the sender's permissions for the job. Then the module
`sizes` or `reports` handles the request. The server keeps no state that another replica would need,
so replicas can be added without coordination (docs/decisions/029).
"""
