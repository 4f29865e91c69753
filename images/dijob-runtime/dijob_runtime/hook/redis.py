"""DI-engine's queue over redis (ding/framework/message_queue/redis.py): it shows which processes
are there, and who listens to an event late hears its first ones too.
"""

from __future__ import annotations

import os
import re
import time
from types import ModuleType
from typing import Any

from dijob_runtime.hook.receiving import Message, receiver
from dijob_runtime.said import say
from dijob_runtime.world import World

# So long after its start a process hears all events, also those that it does not listen to: the
# first ones of its peers (kept.py). For good it would multiply the server's work.
HEARS_ALL_SECONDS = 60.0
LOOK_SECONDS = 0.001
# What DI-engine puts before each message: the sender's id.
MESSAGE = re.compile(rb"[0-9a-f]{32}::", re.ASCII)


def patch(module: ModuleType) -> None:
    """Nothing outside a DIJob."""
    if World.read() is None:
        return
    queue = module.RedisMQ
    usual = queue.listen

    def listen(mq: Any) -> None:
        usual(mq)
        mq._sub = Subscriptions(mq._sub)
        mq._sub.psubscribe("*")

    queue.listen, queue.recv, queue.missing = listen, receiver(_take), missing
    queue.dijob_error = module.redis.exceptions.RedisError


def _take(mq: Any) -> Message | None:
    """The next message of another process."""
    found = mq._sub.get_message(ignore_subscribe_messages=True)
    if found is None:
        time.sleep(LOOK_SECONDS)
        return None
    topic, message = found["channel"].decode(), found["data"]
    if not MESSAGE.match(message):
        say(f"WARNING: ignored a message on topic {topic!r} that is not from DI-engine")
        return None
    sender, data = message.split(b"::", 1)
    return None if sender == mq._id else (topic, data)


def missing(mq: Any, world: World, wanted: set[tuple[int, int]]) -> set[int]:
    """The ranks of the wanted processes, as rank and worker, that the server does not know yet.
    Each process subscribes to a channel of its own, on which nobody speaks.
    """
    channels = {_channel(peer): peer for peer in wanted}
    known: set[str] = set()
    # The listening thread makes it.
    if channels and isinstance(getattr(mq, "_sub", None), Subscriptions):
        try:
            mq._sub.announce(_channel(world.me))
            known = {name.decode() for name, count in mq._client.pubsub_numsub(*channels) if count}
        except mq.dijob_error:
            pass  # a server that is away for a moment: it is asked again
    return {rank for channel, (rank, _) in channels.items() if channel not in known}


def _channel(process: tuple[int, int]) -> str:
    rank, worker = process
    return f"dijob:{os.environ.get('DI_JOB_ID', '')}:{rank}:{worker}"


class Subscriptions:
    """redis-py's PubSub, which hears everything for a while, and each message once."""

    def __init__(self, pubsub: Any) -> None:
        self._pubsub = pubsub
        self._until = time.monotonic() + HEARS_ALL_SECONDS
        self._last: tuple[bytes, bytes] | None = None
        self._announced = ""

    def announce(self, channel: str) -> None:
        """Subscribe to this process's own channel, once."""
        if self._announced != channel:
            self._pubsub.subscribe(channel)
            self._announced = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pubsub, name)

    def get_message(self, **options: Any) -> Any:
        """The next message, None where there is none now. The server sends a message first for its
        channel, if that is subscribed to, and then for the pattern.
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
