"""Builds the job of `kubectl dijob run` from an image, a command and a folder of code."""
