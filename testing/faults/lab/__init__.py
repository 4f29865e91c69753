"""What all fault tests share: the operator as a process, the proxy in front of the API server,
and functions that wait for something.
"""
