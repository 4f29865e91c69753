"""What the operator and the HTTP server need as processes: time, safe log lines, an HTTP port."""
