"""Code shared by the operator, the HTTP server and the history, such as the clock and safe logs."""
