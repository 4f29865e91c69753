"""`kubectl dijob cp`: copies files to and from a rank's container, or a volume of the job.

Like `kubectl cp`, it runs tar in the container through exec. The tenant controls the container's
tar and its output, so none of the received data is trusted.
"""
