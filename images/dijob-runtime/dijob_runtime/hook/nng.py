"""Patch for DI-engine's nng queue (ding/framework/message_queue/nng.py).

The patched queue connects in the background, so that nng retries after every failure. It also makes
sure that the end of the task reaches all peers before the socket is closed.
"""

from __future__ import annotations

import time
from collections import Counter
from types import ModuleType
from typing import Any

from dijob_runtime.hook.kept import FINISH, count_processes
from dijob_runtime.hook.receiving import Message, make_recv
from dijob_runtime.world import PodWorld

# How long a process keeps running after it has emitted the event for the end of the task. It leaves
# earlier if all other processes have left.
LAST_WORD_SECONDS = 2.0
SAY_AGAIN_SECONDS = 0.2
# The default and the maximum size, in messages, of nng's buffers. There is one receive buffer, and
# a send buffer for each peer.
ROOM, MOST_ROOM = 16, 8192


def patch(module: ModuleType) -> None:
    """Replace the socket class and extend the queue's methods."""
    if PodWorld.read() is None:
        return
    known: Any = module
    queue, socket = known.NNGMQ, known.Bus0

    class Bus(socket):  # type: ignore[misc, valid-type]
        """Connects in the background, so that nng retries after any error.

        Without this class, the first attempt is made in the foreground. If the peer is not
        listening yet, pynng logs a traceback before it retries in the background. If there is no
        route to the address, nng never tries again.
        """

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # All processes may send at the same moment, and nng drops messages when its buffer is
            # full.
            room = min(MOST_ROOM, ROOM + 2 * count_processes())
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

    queue.publish, queue.stop, queue.missing = publish_and_note, stop_heard, find_missing_ranks
    queue.dijob_finish_heard = False
    queue.recv = make_recv(_receive_message)


def _receive_message(mq: Any) -> Message:
    topic, data = mq._sock.recv().split(b"::", 1)
    return topic.decode(), data


def find_missing_ranks(mq: Any, world: PodWorld, wanted: set[tuple[int, int]]) -> set[int]:
    """Return the ranks of the processes in `wanted` that are not connected.

    `wanted` has a (rank, worker) pair for each process.

    If the program determines its connections itself, `wanted` is empty and the ranks are unknown.
    In that case, the result is {0} while there are fewer connections than the program requested.
    """
    hosts = Counter(_remote_host(pipe) for pipe in mq._sock.pipes) if mq._running else Counter()
    if sum(hosts.values()) >= max(len(wanted), len(mq.attach_to)):
        return set()
    # All processes of a pod have the same address, so connections are counted per address. If the
    # peer list contains names instead of addresses, none of them matches the address of a
    # connection. In that case, all ranks are returned.
    ranks = Counter(rank for rank, _ in wanted)
    late = {rank for rank, count in ranks.items() if hosts[world.addresses[rank]] < count}
    return late or set(ranks) or {0}


def _remote_host(pipe: Any) -> str:
    try:
        return str(pipe.remote_address).rpartition(":")[0]
    except Exception:  # an nng error, if the pipe has just been closed
        return ""


def _say_last_word(mq: Any, publish: Any) -> None:
    """Repeat the event for the end of the task until all peers have left, for at most
    LAST_WORD_SECONDS.

    nng drops unsent messages when a socket is closed. It also drops messages that arrive at a peer
    faster than the peer reads them.
    """
    data, end = getattr(mq, "dijob_last_word", None), time.monotonic() + LAST_WORD_SECONDS
    # The garbage collector stops a queue a second time, when the queue no longer has a socket.
    while data is not None and mq._running and mq._sock.pipes and time.monotonic() < end:
        publish(mq, FINISH, data)
        if mq.dijob_finish_heard:
            break  # another process also emits it, and the two must not wait for each other
        time.sleep(SAY_AGAIN_SECONDS)
