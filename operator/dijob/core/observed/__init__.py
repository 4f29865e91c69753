"""The current state: the objects and errors that the API server returns, as frozen views and as
messages.
"""
