"""The functional core: it observes, decides and reports, without I/O, a clock or a Kubernetes
client (docs/decisions/001). So every failure can be tested in virtual time, and the same state
always gives the same plan.
"""
