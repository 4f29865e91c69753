"""`kubectl dijob topology`: compares a job's expected connections with the existing ones.

expected.py computes what DI-engine or torchrun should dial, and sockets.py parses the kernel's
tables from the pods. compare.py compares the two, and show.py and svg.py format the report.
"""
