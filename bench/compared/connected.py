"""The program of every entrant's ranks: a torch.distributed group that prints when it is complete.

It gets its peers from torch's own variables (MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE). It runs
in the ditask image, from a ConfigMap, so it imports only torch and the standard library.
"""

import os
import secrets
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist

# A peer whose node has lost power closes no connection. Without a timeout, the other ranks would
# wait for it for torch's 30 minutes.
PATIENCE = timedelta(seconds=60)
STEP_SECONDS = 0.1


def connected() -> int:
    """Exchange a message over every connection of this rank, and return the group's number."""
    rank, world = dist.get_rank(), dist.get_world_size()
    group = torch.tensor([secrets.randbelow(1 << 40)])
    dist.broadcast(group, 0)
    for peer in range(world):
        if peer != rank:
            said, heard = torch.tensor([rank]), torch.tensor([-1])
            sending = dist.isend(said, peer)
            dist.recv(heard, peer)
            sending.wait()
            assert int(heard) == peer, f"rank {peer} has sent {int(heard)}"
    return int(group)


def main() -> None:
    # PID 1 ignores a signal without a handler, and the pod would wait for its whole grace period.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    dist.init_process_group("gloo", timeout=PATIENCE)
    group = connected()
    begun, now = os.environ["BEGUN"], time.time()
    print(
        f"connected group={group} rank={dist.get_rank()} world={dist.get_world_size()}"
        f" begun={begun} at={now:.3f}",
        flush=True,
    )
    # A training step of a rank. It fails in every rank as soon as one rank is lost.
    while True:
        dist.all_reduce(torch.ones(1))
        time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main()
