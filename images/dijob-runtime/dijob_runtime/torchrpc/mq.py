"""The torchrpc queue, which implements DI-engine's interface for message queues (ding 0.5.3,
ding/framework/message_queue/mq.py). Importing this module registers it.
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

from dijob_runtime.messages import log_message
from dijob_runtime.torchrpc import devices, direct
from dijob_runtime.torchrpc.agent import Agent, inbox
from dijob_runtime.torchrpc.neighbours import Card, Neighbours, interface_of, split_address
from dijob_runtime.torchrpc.outbox import Outbox
from dijob_runtime.torchrpc.packed import TENSOR_BYTES, Packed, as_bytes, as_tensor
from dijob_runtime.world import PodWorld

# How long messages that are in transit may take to arrive after the queue is stopped.
FLUSH_SECONDS = 5.0


@MQ_REGISTRY.register("torchrpc:cpu")
class TorchRpcMQ(MQ):
    """Sends each message to all connected peers, as nng does. Peers without a listener for the
    message's topic drop the message.
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
        self._gpus = list(devices.parse_gpus(local_gpus))
        direct.install(bool(self._gpus))
        self._peers: dict[int, Outbox] = {}
        # For each peer, the GPUs of this process that send to the peer directly.
        self._mapped: dict[int, tuple[int, ...]] = {}
        self._cards: dict[int, Card] = {}
        self._lock = threading.Lock()
        self._running = False

    def listen(self) -> None:
        interface = interface_of(split_address(self.listen_to)[0])
        if interface:  # otherwise torch listens on the address to which the host name resolves
            os.environ.setdefault("TP_SOCKET_IFNAME", interface)
        maps: dict[int, dict[int, int]] = {}
        for link in self._links:
            maps.setdefault(link.peer, {})[link.local] = link.remote
        self._agent = Agent(self._node, self._gpus, maps)
        # Peers check their device maps against the number of this process's GPUs, and against the
        # list of GPUs on which it accepts tensors. The card contains both.
        count = torch.cuda.device_count()
        card = Card(self._node, self._agent.url, uuid.uuid4().hex, count, tuple(self._gpus))
        self._neighbours = Neighbours(card, self._joined, self._left, log_message)
        self._running = True
        self._neighbours.start(self.listen_to, self.attach_to)
        log_message(
            f"torchrpc: node {self._node} listens on {self.listen_to} and connects"
            f" to {', '.join(self.attach_to) or 'no peer'}"
        )

    def missing(self, world: PodWorld, wanted: set[tuple[int, int]]) -> set[int]:
        """Return the ranks of the processes in `wanted` that are not connected.

        `wanted` has a (rank, worker) pair for each process.
        """
        known = self._cards if self._running else {}
        return {rank for rank, worker in wanted if rank * world.workers + worker not in known}

    def publish(self, topic: str, data: bytes) -> None:
        self._send(topic, data if len(data) < TENSOR_BYTES else as_tensor(data), len(data))

    def publish_packed(self, topic: str, message: Packed) -> None:
        """Send an event whose tensors go from GPU to GPU if the device map says so (direct.py)."""
        # Each copy to the CPU takes time. So peers that receive directly from the same GPUs of this
        # process share one copy.
        copies: dict[tuple[int, ...], Packed] = {}
        with self._lock:
            for node, peer in list(self._peers.items()) if self._running else ():
                gpus = self._mapped[node]
                if gpus not in copies:
                    copies[gpus] = message.for_gpus(gpus)
                peer.put((topic, copies[gpus]), message.size)

    # Every message goes to every peer, so subscriptions have no effect.

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
        if card.node in self._cards:  # the peer returned before its loss was noticed
            self._left(self._cards[card.node])
        wrong = devices.misfit_of_peer(self._links, card.node, card.gpus, card.takes)
        if wrong:
            log_message(f"{wrong}: tensors for this node are sent through the CPU")
        self._mapped[card.node] = tuple(
            link.local for link in self._links if link.peer == card.node and not wrong
        )
        self._agent.join(card.node, card.url)
        self._cards[card.node] = card
        self._peers[card.node] = Outbox(card.node, partial(self._agent.send, card.node))
        log_message(f"torchrpc: node {card.node} has joined")

    def _left(self, card: Card) -> None:
        if self._cards.get(card.node) != card:
            return
        del self._cards[card.node]
        self._peers.pop(card.node).has_gone()
        self._agent.leave(card.node)
        if self._running:
            log_message(f"torchrpc: node {card.node} has left")
