"""Events that arrive before their first listener does are kept for it. DI-engine drops them
(ding 0.5.3, ding/framework/parallel.py, _handle_message): what a peer says first is lost where this
process is a little later.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any, Callable

# Of each event the newest so many, or two of each process, and so many bytes of them; of all
# together so many bytes.
MOST_MESSAGES = 64
MOST_BYTES = 8 << 20
MOST_BYTES_OF_ALL = 64 << 20
# What task.emit("finish") is to Parallel (ding 0.5.3, ding/framework/task.py, _wrap_event_name).
FINISH = "task.finish"
# Set where the program says itself whom it dials.
OWN_WIRING = "DIJOB_OWN_WIRING"


def processes() -> int:
    """How many processes the world has."""
    return int(os.environ.get("DI_WORLD_SIZE") or 1)


class Kept:
    """Messages by event, within bounds: the oldest of the event that holds most goes first."""

    def __init__(self) -> None:
        self._messages: dict[str, deque[Any]] = {}
        self._bytes: dict[str, int] = {}

    def put(self, event: str, message: Any) -> None:
        """Keep bytes, a memoryview, or what has a `size`."""
        held = self._messages.setdefault(event, deque())
        held.append(message)
        self._bytes[event] = self._bytes.get(event, 0) + _size(message)
        most = max(MOST_MESSAGES, 2 * processes())
        while len(held) > most or (self._bytes[event] > MOST_BYTES and len(held) > 1):
            self._drop_oldest(event)
        while sum(self._bytes.values()) > MOST_BYTES_OF_ALL:
            self._drop_oldest(max(self._bytes, key=lambda name: self._bytes[name]))

    def take(self, event: str) -> list[Any]:
        """All messages of an event, oldest first; they are not kept any longer."""
        self._bytes.pop(event, None)
        return list(self._messages.pop(event, ()))

    def _drop_oldest(self, event: str) -> None:
        self._bytes[event] -= _size(self._messages[event].popleft())


def _size(message: Any) -> int:
    return int(message.size) if hasattr(message, "size") else len(message)


def patch(parallel: Any) -> None:
    """Parallel.on and once hand over what is kept; what arrives and is not listened to is kept."""
    usual = parallel._handle_message
    # One for the process, as Parallel is one. Reentrant: a listener that is called may listen.
    kept, lock = Kept(), threading.RLock()
    # Who listens no longer, or not just now, misses what is said meanwhile, as without this.
    heard_once: set[str] = set()

    def handle(router: Any, topic: str, msg: Any) -> None:
        with lock:
            if topic in heard_once:
                usual(router, topic, msg)
            else:
                kept.put(topic, msg)
        queue = router._mq  # None once this process ends
        if topic == FINISH and queue is not None:
            _pass_on(router, queue, msg)

    def listening(known: Callable[..., None], most: int | None) -> Callable[..., None]:
        def listen(router: Any, event: str, fn: Callable[..., None]) -> None:
            with lock:
                if event == FINISH:
                    _begin(router)
                known(router, event, fn)
                heard_once.add(event)
                for message in kept.take(event)[:most]:
                    router._handle_message(event, message)

        return listen

    parallel._handle_message = handle
    parallel.on = listening(parallel.on, None)
    parallel.once = listening(parallel.once, 1)


def _begin(router: Any) -> None:
    """A task begins: it listens to its end, of which nothing has been said yet."""
    router.dijob_relayed = False
    if router._mq is not None:
        router._mq.dijob_finish_heard, router._mq.dijob_last_word = False, None


def _pass_on(router: Any, queue: Any, msg: Any) -> None:
    """In a star rank 0 alone hears the others: it tells them that the task has finished. Who has
    heard it need not say it to all again (nng.py), if all are connected as the job says.
    """
    relays = getattr(router, "dijob_hub", False) and not getattr(router, "dijob_relayed", False)
    router.dijob_relayed = True
    try:
        if relays:
            queue.publish(FINISH, msg)
    except Exception:
        if queue._running:
            raise
    queue.dijob_finish_heard = OWN_WIRING not in os.environ
