"""The receive loop of DI-engine's queues, with error handling.

After an error, DI-engine 0.5.3 (nng.py, redis.py) calls the logger with invalid arguments, so the
logger prints a traceback. DI-engine then retries at once. This happens even if the program itself
has closed the connection because it is exiting. This loop logs one warning, pauses between
attempts, and ends when the queue is stopped.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Tuple

from dijob_runtime.messages import log_message

PAUSE_SECONDS = 0.2

# (topic, data)
Message = Tuple[str, bytes]


def make_recv(take: Callable[[Any], Message | None]) -> Callable[[Any], Message | None]:
    """Return a queue's `recv` method, which returns None once the queue is stopped.

    `take` returns the next message, or None if there is none yet.
    """

    def receive(mq: Any) -> Message | None:
        failing = False
        while mq._running:
            try:
                message = take(mq)
            except Exception as error:  # pynng's or redis-py's error, or a closed socket
                if mq._running:
                    if not failing:
                        log_message(f"WARNING: cannot receive messages, retrying: {error!r}")
                    failing = True
                    time.sleep(PAUSE_SECONDS)
                continue
            if failing:
                log_message("messages are received again")
                failing = False
            if message is not None:
                return message
        return None

    return receive
