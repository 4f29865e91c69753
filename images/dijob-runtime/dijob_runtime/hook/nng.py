"""DI-engine's queue over nng (ding/framework/message_queue/nng.py): it dials in the background, and
its last word is heard.
"""

from __future__ import annotations

import time
from collections import Counter
from types import ModuleType
from typing import Any

from dijob_runtime.hook.kept import FINISH, processes
from dijob_runtime.hook.receiving import Message, receiver
from dijob_runtime.world import World

# So long a process that has said that the task has finished stays, unless all others go before.
LAST_WORD_SECONDS = 2.0
SAY_AGAIN_SECONDS = 0.2
# Messages that wait to be read, and to be sent to each peer: nng's own number, and its most.
ROOM, MOST_ROOM = 16, 8192


def patch(module: ModuleType) -> None:
    """Nothing outside a DIJob."""
    if World.read() is None:
        return
    known: Any = module
    queue, socket = known.NNGMQ, known.Bus0

    class Bus(socket):  # type: ignore[misc, valid-type]
        """Dials in the background: nng then tries again whatever has gone wrong. Otherwise it tries
        once in the foreground, prints a traceback where nobody listens yet, and where an address
        cannot be routed never tries again.
        """

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # All may speak at the same moment, and nng drops what comes when its buffer is full.
            room = min(MOST_ROOM, ROOM + 2 * processes())
            self.recv_buffer_size = self.send_buffer_size = room

        def dial(self, address: str, **_: Any) -> Any:
            return super().dial(address, block=False)

    known.Bus0 = Bus
    publish, stop = queue.publish, queue.stop

    def publish_and_note(mq: Any, topic: str, data: bytes) -> None:
        if topic == FINISH and not mq.dijob_finish_heard:
            mq.dijob_last_word = data
        publish(mq, topic, data)

    def stop_heard(mq: Any) -> None:
        _say_last_word(mq, publish)
        stop(mq)

    queue.publish, queue.stop, queue.missing = publish_and_note, stop_heard, missing
    queue.dijob_finish_heard = False
    queue.recv = receiver(_take)


def _take(mq: Any) -> Message:
    topic, data = mq._sock.recv().split(b"::", 1)
    return topic.decode(), data


def missing(mq: Any, world: World, wanted: set[tuple[int, int]]) -> set[int]:
    """The ranks of the wanted processes, as rank and worker, that are not connected; where the
    program says itself whom it dials, nobody is wanted, and the first one stands for all of these.
    """
    hosts = Counter(_host(pipe) for pipe in mq._sock.pipes) if mq._running else Counter()
    if sum(hosts.values()) >= max(len(wanted), len(mq.attach_to)):
        return set()
    # The peers of one pod have one address. Where the list has names, nobody is told apart.
    ranks = Counter(rank for rank, _ in wanted)
    late = {rank for rank, count in ranks.items() if hosts[world.addresses[rank]] < count}
    return late or set(ranks) or {0}


def _host(pipe: Any) -> str:
    try:
        return str(pipe.remote_address).rpartition(":")[0]
    except Exception:  # nng's own, of a pipe that has just been closed
        return ""


def _say_last_word(mq: Any, publish: Any) -> None:
    """nng drops what is still to be sent when a socket is closed, and what comes to a peer faster
    than it reads. That the task has finished is said until all have gone, or for a while.
    """
    data, end = getattr(mq, "dijob_last_word", None), time.monotonic() + LAST_WORD_SECONDS
    # A queue that is collected is stopped once more, and has no socket then.
    while data is not None and mq._running and mq._sock.pipes and time.monotonic() < end:
        publish(mq, FINISH, data)
        if mq.dijob_finish_heard:
            break  # another one says it too: not both wait for each other
        time.sleep(SAY_AGAIN_SECONDS)
