"""What happens if a queue of DI-engine's cannot receive. DI-engine 0.5.3 (nng.py, redis.py) logs it
with a wrong call, which prints a traceback of the logger, and tries again at once. It also does so
when the program's own end has closed the connection, which is no failure.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Tuple

from dijob_runtime.said import say

PAUSE_SECONDS = 0.2

# (topic, data)
Message = Tuple[str, bytes]


def receiver(take: Callable[[Any], Message | None]) -> Callable[[Any], Message | None]:
    """A queue's `recv` out of `take`, which returns the next message, or None if there is none yet.
    It returns None when the queue is stopped.
    """

    def receive(mq: Any) -> Message | None:
        failing = False
        while mq._running:
            try:
                message = take(mq)
            except Exception as error:  # of pynng, of redis-py, and of a socket that is closed
                if mq._running:
                    if not failing:
                        say(f"WARNING: cannot receive messages, retrying: {error!r}")
                    failing = True
                    time.sleep(PAUSE_SECONDS)
                continue
            if failing:
                say("messages are received again")
                failing = False
            if message is not None:
                return message
        return None

    return receive
