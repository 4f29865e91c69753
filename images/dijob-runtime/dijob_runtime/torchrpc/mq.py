"""The queue as DI-engine knows it (ding 0.5.3, ding/framework/message_queue/mq.py). Importing it
registers it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from functools import partial
from typing import Any

import torch
from ding.framework.message_queue.mq import MQ
from ding.utils import MQ_REGISTRY

from dijob_runtime.said import say
from dijob_runtime.torchrpc import devices, direct
from dijob_runtime.torchrpc.agent import Agent, as_bytes, as_tensor, inbox
from dijob_runtime.torchrpc.neighbours import Card, Neighbours, interface_of, split
from dijob_runtime.torchrpc.outbox import Outbox

# torch sends a tensor's memory by a channel of its own, which costs more than it saves for less
# than this.
TENSOR_BYTES = 256 * 2**10
# What is on its way when the queue is stopped has this long to arrive.
FLUSH_SECONDS = 5.0


@MQ_REGISTRY.register("torchrpc:cpu")
class TorchRpcMQ(MQ):
    """Each message goes to all neighbours, as with nng; those who do not listen to its topic drop
    it.
    """

    def __init__(
        self,
        listen_to: str,
        attach_to: list[str] | None = None,
        node: int = 0,
        device_map: str = "",
        local_gpus: str = "",
        **_: Any,
    ) -> None:
        self.listen_to = listen_to
        self.attach_to = attach_to or []
        self._node = node
        self._links = devices.device_map(device_map)
        self._gpus = list(devices.gpus(local_gpus))
        if self._gpus:
            direct.install()
        self._peers: dict[int, Outbox] = {}
        self._cards: dict[int, Card] = {}
        self._lock = threading.Lock()
        self._running = False

    def listen(self) -> None:
        interface = interface_of(split(self.listen_to)[0])
        if interface:  # else torch looks up what the host's name leads to
            os.environ.setdefault("TP_SOCKET_IFNAME", interface)
        self._agent = Agent(self._node, self._gpus)
        for peer in {link.peer for link in self._links}:
            self._agent.map_devices(
                peer, {link.local: link.remote for link in self._links if link.peer == peer}
            )
        card = Card(self._node, self._agent.url, uuid.uuid4().hex, torch.cuda.device_count())
        self._neighbours = Neighbours(card, self._joined, self._left, say)
        self._running = True
        self._neighbours.start(self.listen_to, self.attach_to)
        say(
            f"torchrpc: node {self._node} listens on {self.listen_to} and dials"
            f" {', '.join(self.attach_to) or 'nobody'}"
        )

    def publish(self, topic: str, data: bytes) -> None:
        self._send(topic, data if len(data) < TENSOR_BYTES else as_tensor(data), len(data))

    def publish_object(self, topic: str, message: dict[str, Any]) -> None:
        """An event as it is, for processes whose GPUs are mapped (direct.py)."""
        self._send(topic, message, 0)

    def subscribe(self, topic: str) -> None:
        return

    def unsubscribe(self, topic: str) -> None:
        return

    def recv(self) -> tuple[str, Any] | None:
        message = inbox.get()
        if message is None:
            return None
        topic, data = message
        return topic, as_bytes(data) if isinstance(data, torch.Tensor) else data

    def stop(self) -> None:
        if not self._running:
            return
        self._running = False
        end = time.monotonic() + FLUSH_SECONDS
        for peer in list(self._peers.values()):
            peer.flush(max(0.0, end - time.monotonic()))
        self._neighbours.stop()
        inbox.put(None)
        self._agent.stop()

    def _send(self, topic: str, data: Any, size: int) -> None:
        with self._lock:
            for peer in list(self._peers.values()) if self._running else ():
                peer.put((topic, data), size)

    def _joined(self, card: Card) -> None:
        if card.node in self._cards:  # it has come back before we noticed that it had gone
            self._left(self._cards[card.node])
        wrong = devices.misfit_of_peer(self._links, card.node, card.gpus)
        if wrong:
            say(f"{wrong}: nothing is sent to it")
            return
        back = {link.remote: link.local for link in self._links if link.peer == card.node}
        self._agent.join(card.node, card.url, back)
        self._cards[card.node] = card
        self._peers[card.node] = Outbox(card.node, partial(self._agent.send, card.node))
        say(f"torchrpc: node {card.node} has come")

    def _left(self, card: Card) -> None:
        if self._cards.get(card.node) != card:
            return
        del self._cards[card.node]
        self._peers.pop(card.node).has_gone()
        self._agent.leave(card.node)
        if self._running:
            say(f"torchrpc: node {card.node} has gone")
