"""The current state: converts the objects and errors that the API server returns into frozen views
and messages.
"""
