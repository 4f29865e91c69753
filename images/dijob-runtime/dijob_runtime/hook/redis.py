"""Patch for DI-engine's Redis queue (ding/framework/message_queue/redis.py).

Redis drops messages that have no subscriber, and no process knows which others are connected. With
this patch, a process can check which peers are connected (`missing`). It also receives the first
events of its peers, even if it subscribes to these events later.
"""

from __future__ import annotations

import os
import re
import time
from types import ModuleType
from typing import Any

from dijob_runtime.hook.receiving import Message, make_recv
from dijob_runtime.messages import log_message
from dijob_runtime.world import PodWorld

# A process receives all events for this long after its start. Events without a listener are kept
# (kept.py). The time is limited, because sending each message to every process multiplies the
# server's work.
HEARS_ALL_SECONDS = 60.0
LOOK_SECONDS = 0.001
# The prefix that DI-engine adds to each message. It contains the sender's ID.
MESSAGE = re.compile(rb"[0-9a-f]{32}::", re.ASCII)


def patch(module: ModuleType) -> None:
    """Extend the queue's methods."""
    if PodWorld.read() is None:
        return
    queue = module.RedisMQ
    usual = queue.listen

    def listen(mq: Any) -> None:
        usual(mq)
        mq._sub = Subscriptions(mq._sub)
        mq._sub.psubscribe("*")

    queue.listen, queue.recv, queue.missing = (
        listen,
        make_recv(_receive_message),
        find_missing_ranks,
    )
    queue.dijob_error = module.redis.exceptions.RedisError


def _receive_message(mq: Any) -> Message | None:
    """Return the next message from another process, or None if there is none at the moment."""
    found = mq._sub.get_message(ignore_subscribe_messages=True)
    if found is None:
        time.sleep(LOOK_SECONDS)
        return None
    topic, message = found["channel"].decode(), found["data"]
    if not MESSAGE.match(message):
        log_message(f"WARNING: ignored a message on topic {topic!r} that is not from DI-engine")
        return None
    sender, data = message.split(b"::", 1)
    return None if sender == mq._id else (topic, data)


def find_missing_ranks(mq: Any, world: PodWorld, wanted: set[tuple[int, int]]) -> set[int]:
    """Return the ranks of the processes in `wanted` that the server does not know yet.

    `wanted` has a (rank, worker) pair for each process. Each process announces itself by
    subscribing to its own channel. No messages are sent on this channel.
    """
    channels = {_process_channel(peer): peer for peer in wanted}
    known: set[str] = set()
    # The listening thread creates `_sub`, possibly after the first call of this function.
    if channels and isinstance(getattr(mq, "_sub", None), Subscriptions):
        try:
            mq._sub.announce(_process_channel(world.me))
            known = {name.decode() for name, count in mq._client.pubsub_numsub(*channels) if count}
        except mq.dijob_error:
            pass  # the server is temporarily unavailable; the caller asks again
    return {rank for channel, (rank, _) in channels.items() if channel not in known}


def _process_channel(process: tuple[int, int]) -> str:
    rank, worker = process
    return f"dijob:{os.environ.get('DI_JOB_ID', '')}:{rank}:{worker}"


class Subscriptions:
    """Wraps redis-py's PubSub: for HEARS_ALL_SECONDS, it receives all messages, each of them
    once.
    """

    def __init__(self, pubsub: Any) -> None:
        self._pubsub = pubsub
        self._until = time.monotonic() + HEARS_ALL_SECONDS
        self._last: tuple[bytes, bytes] | None = None
        self._announced = ""

    def announce(self, channel: str) -> None:
        """Subscribe to this process's own channel, unless this has already been done."""
        if self._announced != channel:
            self._pubsub.subscribe(channel)
            self._announced = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pubsub, name)

    def get_message(self, **options: Any) -> Any:
        """Return the next message, or None if there is none at the moment.

        At first, the process is subscribed to all channels through the pattern `*`. If it is also
        subscribed to a channel by name, the server sends it each message on that channel twice:
        first for the name and then for the pattern. The second copy is skipped.
        """
        if self._until and time.monotonic() > self._until:
            self._until = 0.0
            self._pubsub.punsubscribe("*")
        found = self._pubsub.get_message(**options)
        if found is None:
            return None
        same = (found["channel"], found["data"])
        if found["type"] == "message":
            self._last = same
        elif same == self._last or not MESSAGE.match(found["data"]):
            self._last = None
            return None
        return found
