"""Fault injection on a real API server: README.md says which kind of fault belongs where."""
