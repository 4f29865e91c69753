"""`kubectl dijob cp`: copies files from and to a rank's container, or a volume of the job.

Like `kubectl cp`, it runs tar in the container with exec. Both the container's tar and what it
sends belong to the tenant, so nothing that arrives is trusted.
"""
