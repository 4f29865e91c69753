"""Events that arrive before their listener does are kept for it. DI-engine drops them
(ding 0.5.3, ding/framework/parallel.py, _handle_message): what a peer says first is lost where this
process is a little later.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Callable

# Of each event the newest so many, and so many bytes of them; of all together so many bytes.
MOST_MESSAGES = 64
MOST_BYTES = 8 << 20
MOST_BYTES_OF_ALL = 64 << 20
FINISH = "finish"


class Kept:
    """Messages by event, within bounds: the oldest of the event that holds most goes first."""

    def __init__(self) -> None:
        self._messages: dict[str, deque[bytes]] = {}
        self._bytes: dict[str, int] = {}

    def put(self, event: str, message: bytes) -> None:
        held = self._messages.setdefault(event, deque())
        held.append(message)
        self._bytes[event] = self._bytes.get(event, 0) + len(message)
        while len(held) > MOST_MESSAGES or self._bytes[event] > MOST_BYTES:
            self._drop_oldest(event)
        while sum(self._bytes.values()) > MOST_BYTES_OF_ALL:
            self._drop_oldest(max(self._bytes, key=lambda name: self._bytes[name]))

    def take(self, event: str) -> list[bytes]:
        """All messages of an event, oldest first; they are not kept any longer."""
        self._bytes.pop(event, None)
        return list(self._messages.pop(event, ()))

    def _drop_oldest(self, event: str) -> None:
        self._bytes[event] -= len(self._messages[event].popleft())


def patch(parallel: Any) -> None:
    """Parallel.on and once hand over what is kept; what arrives and is not listened to is kept."""
    usual = parallel._handle_message
    # One for the process, as Parallel is one. Reentrant: a listener that is called may listen.
    kept, lock = Kept(), threading.RLock()

    def handle(router: Any, topic: str, msg: Any) -> None:
        with lock:
            if router._event_loop.listened(topic) or not isinstance(msg, bytes):
                usual(router, topic, msg)
            else:
                kept.put(topic, msg)
        if topic == FINISH:
            _relay(router, msg)

    def listening(known: Callable[..., None]) -> Callable[..., None]:
        def listen(router: Any, event: str, fn: Callable[..., None]) -> None:
            with lock:
                known(router, event, fn)
                for message in kept.take(event):
                    usual(router, event, message)

        return listen

    parallel._handle_message = handle
    parallel.on = listening(parallel.on)
    parallel.once = listening(parallel.once)


def _relay(router: Any, msg: bytes) -> None:
    """In a star rank 0 alone hears the others: it tells them that the task has finished."""
    if getattr(router, "dijob_hub", False) and not getattr(router, "dijob_relayed", False):
        router.dijob_relayed = True
        router._mq.publish(FINISH, msg)
