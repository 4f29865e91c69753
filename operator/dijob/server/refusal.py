"""What a client is told when it does not get what it asks for."""


class Refusal(Exception):
    """An HTTP status, and one sentence that says what to do; `retry_after` in seconds."""

    def __init__(self, status: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
