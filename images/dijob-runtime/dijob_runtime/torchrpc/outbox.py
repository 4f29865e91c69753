"""The queue of the messages to one peer. It keeps the order of the messages.

Waiting messages are sent together in one call, because a call costs torch about as much time as
100 KB of data.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import Any, Callable, Tuple

from dijob_runtime.messages import log_message

# The limits for messages that are waiting or in transit. A publisher that exceeds them is blocked,
# so that memory does not grow without bounds.
MOST_BYTES = 256 * 2**20
MOST_MESSAGES = 256
# While a call is in transit, another call is started only if at least this many bytes are waiting.
CALL_BYTES = 2**20

# (topic, message)
Message = Tuple[str, Any]


class Outbox:
    """Sends messages to one peer. The function `send` sends several messages in one call, and
    returns a future that fails if the peer does not confirm their arrival.
    """

    def __init__(self, node: int, send: Callable[[list[Message]], Any]) -> None:
        self._node = node
        self._send = send
        self._waiting: deque[tuple[Message, int]] = deque()
        self._waiting_bytes = 0
        self._calls = 0
        self._messages = 0
        self._bytes = 0
        self._gone = False
        self._changed = threading.Condition()

    def put(self, message: Message, size: int) -> None:
        """Queue a message of `size` bytes, and block while the limits are exceeded. A message that
        is larger than the limit is accepted when the queue is empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._gone or not self._messages or self._room(size))
            if self._gone:
                return
            self._messages, self._bytes = self._messages + 1, self._bytes + size
            self._waiting.append((message, size))
            self._waiting_bytes += size
            self._send_due()

    def flush(self, seconds: float) -> None:
        """Wait until all messages have arrived, but for at most this many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._gone or not self._messages, seconds)

    def has_gone(self) -> None:
        """Drop all messages and release blocked publishers, because the peer has left."""
        with self._changed:
            self._gone = True
            self._waiting.clear()
            self._changed.notify_all()

    def _room(self, size: int) -> bool:
        return self._messages < MOST_MESSAGES and self._bytes + size <= MOST_BYTES

    def _send_due(self) -> None:
        while self._waiting and (not self._calls or self._waiting_bytes >= CALL_BYTES):
            messages, size = self._take()
            self._calls += 1
            try:
                self._send(messages).add_done_callback(partial(self._arrived, len(messages), size))
            except RuntimeError as error:  # the peer has just left
                self._done(len(messages), size, str(error))

    def _take(self) -> tuple[list[Message], int]:
        messages, sum_ = [], 0
        while self._waiting and sum_ < CALL_BYTES:
            message, size = self._waiting.popleft()
            messages.append(message)
            sum_ += size
        self._waiting_bytes -= sum_
        return messages, sum_

    def _arrived(self, messages: int, size: int, future: Any) -> None:
        problem = ""
        try:
            future.value()
        except Exception as error:  # any exception that the peer raised
            problem = str(error) or type(error).__name__
        with self._changed:
            self._done(messages, size, problem)
            self._send_due()

    def _done(self, messages: int, size: int, problem: str) -> None:
        self._calls, self._messages, self._bytes = (
            self._calls - 1,
            self._messages - messages,
            self._bytes - size,
        )
        self._changed.notify_all()
        if problem and not self._gone:
            what = "a message" if messages == 1 else f"{messages} messages"
            log_message(
                f"{what} to node {self._node} did not arrive: {problem.splitlines()[0][:200]}"
            )
