"""The RPC agent of one process, whose peers join and leave. Needs torch 1.13 or newer.

It uses the same steps as torch for a group without a fixed size
(torch/distributed/rpc/backend_registry.py, world_size None). But in torch, all members find each
other through one shared store, and every member must take part in each change. Here each process
has its own store, and registers peers after their handshake.
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
from dijob_runtime.torchrpc.packed import Packed, wait_for_tensors

# Only TCP is used. By default, torch would use shared memory, CMA and CUDA IPC between processes
# with the same boot ID. Pods on one node have the same boot ID, but not the same memory and GPUs.
# With CUDA IPC, torch aborts a process that is offered a GPU of another pod, because the process
# does not see that GPU.
TRANSPORTS = ["uv"]
CHANNELS = ["mpt_uv", "basic"]
# Between GPUs, direct InfiniBand transfers (cuda_gdr) are preferred if they are available.
# cuda_basic uses TCP through `basic`.
GPU_TRANSPORTS = ["ibv", *TRANSPORTS]
GPU_CHANNELS = ["cuda_gdr", "cuda_basic", *CHANNELS]
# With more than one thread, messages from one peer can arrive out of order.
THREADS = 1
# A message that has not arrived within this time counts as lost. The timeout is long, because 1 GB
# may be in transit.
TIMEOUT_SECONDS = 120.0
# torch stores the IDs of workers in an int16, and IDs are not reused.
MOST_PEERS = 2**15 - 1
# The store prefix under which torch registers the address of an agent and looks up the addresses of
# peers.
ADDRESSES = "addrs"

# The messages that have arrived in this process; None ends the queue. `inbox` and `receive` are
# global, because torch calls `receive` by its name.
inbox: queue.Queue[Message | None] = queue.Queue()


def receive(messages: list[Message]) -> None:
    """Receive messages from a peer, in order. The peer calls this function remotely."""
    for topic, message in messages:
        if isinstance(message, Packed):
            wait_for_tensors(message)
        inbox.put((topic, message))


class Agent:
    """Sends messages to peers, which are identified by their node IDs. `maps` maps this process's
    GPUs to those of each peer.
    """

    def __init__(
        self, node: int, gpus: list[int], maps: dict[int, dict[int, int]] | None = None
    ) -> None:
        store = dist.HashStore()
        self._store = dist.PrefixStore(ADDRESSES, store)
        self._devices = [torch.device("cuda", gpu) for gpu in gpus]
        self._ids: dict[int, int] = {}
        self._last = 0
        name = _agent_name(node)
        options = TensorPipeRpcBackendOptions(
            num_worker_threads=THREADS,
            rpc_timeout=TIMEOUT_SECONDS,
            devices=self._devices,
            # All maps must be known now: the agent copies them and ignores later changes.
            device_maps={_agent_name(peer): _on_gpus(map_) for peer, map_ in (maps or {}).items()},
            _transports=GPU_TRANSPORTS if gpus else TRANSPORTS,
            _channels=GPU_CHANNELS if gpus else CHANNELS,
        )
        if gpus:
            # A peer's tensors may arrive before the program has initialized CUDA.
            torch.cuda.init()
        dist_autograd._init(0)  # required by the agent
        self._agent = TensorPipeAgent(store, name, 0, None, options, {}, self._devices)
        api._init_rpc_states(self._agent)
        # uv://HOST:PORT. torch takes HOST from the interface in TP_SOCKET_IFNAME, which mq.py sets.
        self.url = self._store.get(name).decode()

    def join(self, node: int, url: str) -> None:
        """Register a peer. Raises RuntimeError if torch cannot register more peers."""
        if self._last == MOST_PEERS:
            raise RuntimeError(
                f"this process has had {MOST_PEERS} peers, which is the most that torch supports"
            )
        self._last += 1
        self._ids[node] = self._last
        self._store.set(_agent_name(node), url)
        # Responses need no device map, because they are empty.
        self._agent._update_group_membership(
            WorkerInfo(_agent_name(node), self._last), self._devices, {}, True
        )

    def leave(self, node: int) -> None:
        """Remove a peer. Messages that are in transit to this peer fail."""
        number = self._ids.pop(node, None)
        if number is not None:
            self._agent._update_group_membership(
                WorkerInfo(_agent_name(node), number), self._devices, {}, False
            )

    def send(self, node: int, messages: list[Message]) -> torch.futures.Future[None]:
        """Send messages to a registered peer. The future fails if the peer does not confirm their
        arrival.
        """
        return rpc.rpc_async(_agent_name(node), receive, args=(messages,), timeout=TIMEOUT_SECONDS)

    def stop(self) -> None:
        """Stop the agent without waiting for the peers, which may be gone."""
        rpc.shutdown(graceful=False)


def _on_gpus(map_: dict[int, int]) -> dict[torch.device, torch.device]:
    return {torch.device("cuda", a): torch.device("cuda", b) for a, b in map_.items()}


def _agent_name(node: int) -> str:
    return f"node-{node}"
