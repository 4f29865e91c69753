"""Code that both processes, the operator and the HTTP server, use: clock, safe log lines, HTTP
port.
"""
