"""The current state: what the API server shows and returns, as frozen views and as messages."""
