"""The exception for a rejected request."""


class RequestRejection(Exception):
    """A request is rejected with an HTTP status and a message that says what to do.

    `retry_after` is in seconds; 0 means that a retry does not help.
    """

    def __init__(self, status: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
