"""What all fault tests share: the operator as a process, the proxy before the API server, waits."""
