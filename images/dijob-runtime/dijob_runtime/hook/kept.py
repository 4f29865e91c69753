"""Keeps events that arrive before their first listener is registered.

DI-engine drops such events (ding 0.5.3, ding/framework/parallel.py, _handle_message). Processes
start at slightly different times, so the first events of a faster peer would be lost.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any, Callable

# The limits: messages per event (in a large world: two per process), bytes per event, and bytes in
# total. The oldest messages are dropped first.
MOST_MESSAGES = 64
MOST_BYTES = 8 << 20
MOST_BYTES_OF_ALL = 64 << 20
# The name that Parallel gives to the event of task.emit("finish") (ding 0.5.3,
# ding/framework/task.py, _wrap_event_name).
FINISH = "task.finish"
# Set if the program itself determines the addresses to which it connects.
OWN_WIRING = "DIJOB_OWN_WIRING"


def count_processes() -> int:
    """Return the number of processes in the world."""
    return int(os.environ.get("DI_WORLD_SIZE") or 1)


class Kept:
    """Keeps messages by event, within the limits above. While the total limit is exceeded, the
    event whose messages have the most bytes loses its oldest message.
    """

    def __init__(self) -> None:
        self._messages: dict[str, deque[Any]] = {}
        self._bytes: dict[str, int] = {}

    def put(self, event: str, message: Any) -> None:
        """Keep a message: bytes, a memoryview, or an object with a `size` in bytes."""
        held = self._messages.setdefault(event, deque())
        held.append(message)
        self._bytes[event] = self._bytes.get(event, 0) + _message_size(message)
        most = max(MOST_MESSAGES, 2 * count_processes())
        while len(held) > most or (self._bytes[event] > MOST_BYTES and len(held) > 1):
            self._drop_oldest(event)
        while sum(self._bytes.values()) > MOST_BYTES_OF_ALL:
            self._drop_oldest(max(self._bytes, key=lambda name: self._bytes[name]))

    def take(self, event: str) -> list[Any]:
        """Remove and return all messages of an event, oldest first."""
        self._bytes.pop(event, None)
        return list(self._messages.pop(event, ()))

    def _drop_oldest(self, event: str) -> None:
        self._bytes[event] -= _message_size(self._messages[event].popleft())


def _message_size(message: Any) -> int:
    return int(message.size) if hasattr(message, "size") else len(message)


def patch(parallel: Any) -> None:
    """Keep events without a listener, and deliver them in Parallel.on and Parallel.once."""
    usual = parallel._handle_message
    # One store for the process, because Parallel is a singleton. The lock is reentrant, because a
    # listener that receives a kept message may register another listener.
    kept, lock = Kept(), threading.RLock()
    # Events that have had a listener. If the listener of such an event is removed later, the
    # program no longer wants the event's messages. They are then dropped, as they would
    # be without this patch.
    heard_once: set[str] = set()

    def handle(router: Any, topic: str, msg: Any) -> None:
        with lock:
            if topic in heard_once:
                usual(router, topic, msg)
            else:
                kept.put(topic, msg)
                if topic == FINISH:
                    router.dijob_over = True
        queue = router._mq  # None while this process exits
        if topic == FINISH and queue is not None:
            _pass_on(router, queue, msg)

    def listening(known: Callable[..., None], most: int | None) -> Callable[..., None]:
        def listen(router: Any, event: str, fn: Callable[..., None]) -> None:
            with lock:
                if event == FINISH:
                    _reset_finish(router)
                known(router, event, fn)
                heard_once.add(event)
                for message in kept.take(event)[:most]:
                    router._handle_message(event, message)

        return listen

    parallel._handle_message = handle
    parallel.on = listening(parallel.on, None)
    parallel.once = listening(parallel.once, 1)


def _reset_finish(router: Any) -> None:
    """Reset the state of FINISH when a listener for FINISH is registered.

    Registering this listener is the first thing that a new task does.
    """
    router.dijob_relayed = router.dijob_over = False
    if router._mq is not None:
        router._mq.dijob_finish_heard, router._mq.dijob_last_word = False, None


def _pass_on(router: Any, queue: Any, msg: Any) -> None:
    """Forward FINISH in a star, where only rank 0 is connected to all other ranks.

    A process emits its own FINISH when it leaves the task. The process then repeats this event
    (nng.py), unless it has already received FINISH. A program that determines its connections
    itself always repeats the event.
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
