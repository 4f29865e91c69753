"""`kubectl dijob run`: a job of an image, a command and a folder of code."""
