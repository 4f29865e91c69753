"""One process's RPC agent, whose peers come and go. torch 1.13 or newer.

torch makes a group without a fixed size of such steps (torch/distributed/rpc/backend_registry.py,
world_size None), and tells each member of each other through one store, all at once, which no
member may miss. Here each process has a store of its own, and enters who has introduced himself.
"""

from __future__ import annotations

import queue

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import TensorPipeAgent, WorkerInfo
from torch.distributed.rpc import TensorPipeRpcBackendOptions, api

from dijob_runtime.torchrpc.outbox import Message
from dijob_runtime.torchrpc.packed import Packed, settle

# Shared memory, CMA and CUDA's IPC are chosen by the machine's boot id, which pods of one node
# share while their memory and their GPUs are apart: torch ends a process that is offered the GPU
# of another pod by CUDA's IPC, since it cannot find it.
TRANSPORTS = ["uv"]
CHANNELS = ["mpt_uv", "basic"]
# Preferred where they can be: InfiniBand, straight to the GPU. `basic` beneath cuda_basic is TCP.
GPU_TRANSPORTS = ["ibv", *TRANSPORTS]
GPU_CHANNELS = ["cuda_gdr", "cuda_basic", *CHANNELS]
# One thread: with more of them two messages of one peer can overtake each other.
THREADS = 1
# A message that has not arrived by then never will. Long, since 1 GB may be on its way.
TIMEOUT_SECONDS = 120.0
# torch counts workers in an int16.
MOST_PEERS = 2**15 - 1
# Where torch notes the address of an agent, and where it looks that of a peer up.
ADDRESSES = "addrs"

# What has arrived in this process; None ends it. torch calls `receive` by its name.
inbox: queue.Queue[Message | None] = queue.Queue()


def receive(messages: list[Message]) -> None:
    """Messages from a peer, in order."""
    for topic, message in messages:
        if isinstance(message, Packed):
            settle(message)
        inbox.put((topic, message))


class Agent:
    """Sends to peers by their node ids; `maps` says from which GPU to which of the peer's."""

    def __init__(
        self, node: int, gpus: list[int], maps: dict[int, dict[int, int]] | None = None
    ) -> None:
        store = dist.HashStore()
        self._store = dist.PrefixStore(ADDRESSES, store)
        self._devices = [torch.device("cuda", gpu) for gpu in gpus]
        self._ids: dict[int, int] = {}
        self._last = 0
        name = _name(node)
        options = TensorPipeRpcBackendOptions(
            num_worker_threads=THREADS,
            rpc_timeout=TIMEOUT_SECONDS,
            devices=self._devices,
            # The agent takes a copy of them, so that a map that comes later is none.
            device_maps={_name(peer): _on_gpus(map_) for peer, map_ in (maps or {}).items()},
            _transports=GPU_TRANSPORTS if gpus else TRANSPORTS,
            _channels=GPU_CHANNELS if gpus else CHANNELS,
        )
        if gpus:
            torch.cuda.init()  # what a peer sends may come before this process uses its GPU
        dist_autograd._init(0)  # the agent does not start without
        self._agent = TensorPipeAgent(store, name, 0, None, options, {}, self._devices)
        api._init_rpc_states(self._agent)
        # uv://HOST:PORT; the peers put the host there by which they know this process.
        self.url = self._store.get(name).decode()

    def join(self, node: int, url: str) -> None:
        """A peer has come."""
        if self._last == MOST_PEERS:
            raise RuntimeError(
                f"this process has had {MOST_PEERS} peers, which is the most that torch supports"
            )
        self._last += 1
        self._ids[node] = self._last
        self._store.set(_name(node), url)
        # No map for answers: they are empty.
        self._agent._update_group_membership(
            WorkerInfo(_name(node), self._last), self._devices, {}, True
        )

    def leave(self, node: int) -> None:
        """A peer has gone. What is on its way to it fails."""
        number = self._ids.pop(node, None)
        if number is not None:
            self._agent._update_group_membership(
                WorkerInfo(_name(node), number), self._devices, {}, False
            )

    def send(self, node: int, messages: list[Message]) -> torch.futures.Future[None]:
        """Send to a peer that has joined. The future fails where it cannot have arrived."""
        return rpc.rpc_async(_name(node), receive, args=(messages,), timeout=TIMEOUT_SECONDS)

    def stop(self) -> None:
        """End it, whatever the peers do."""
        rpc.shutdown(graceful=False)


def _on_gpus(map_: dict[int, int]) -> dict[torch.device, torch.device]:
    return {torch.device("cuda", a): torch.device("cuda", b) for a, b in map_.items()}


def _name(node: int) -> str:
    return f"node-{node}"
