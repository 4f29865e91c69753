"""`kubectl dijob topology`: compares a job's expected connections with the existing ones.

expected.py computes what DI-engine or torchrun should dial, sockets.py reads the kernel's tables
from the pods, compare.py joins both, show.py and svg.py print the report.
"""
