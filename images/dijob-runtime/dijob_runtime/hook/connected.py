"""Delays the program's main function until this process is connected to its peers.

DI-engine starts main at once, and events that it emits before a peer is connected are lost. After
such a loss, DI-engine's own DQN example waits for timeouts of 60 s. The peers are those in the peer
list with which this process started. A rank that joins later does not delay other ranks.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

from dijob_runtime.hook.kept import OWN_WIRING
from dijob_runtime.messages import log_message
from dijob_runtime.topology import are_connected
from dijob_runtime.world import FOLDER, PodWorld

# The placeholder in the peer list for a rank that has succeeded
# (operator/dijob/core/membership/address_list.py). Processes do not wait for this address.
PLACEHOLDER = "127.0.0.2"
LOOK_SECONDS = 0.05
SAY_EACH_SECONDS = 10.0
# The interval between checks for peers that were missing when the program started.
LATE_LOOK_SECONDS = 1.0
# The file that tells the launcher which ranks were missing when a process started
# (the launcher's run/readiness.go).
LACKING = FOLDER / "without-peers"


def patch(parallel: Any) -> None:
    """Make each process wait for its peers before DI-engine calls the program's main function."""
    usual = parallel._supervised_runner

    def supervised(router: Any, main: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        wait_until_connected(router)
        usual(router, main, *args, **kwargs)

    parallel._supervised_runner = supervised


def wait_until_connected(router: Any) -> None:
    """Wait for all peers to connect, up to DIJOB_CONNECT_SECONDS (default 120; 0: do not wait)."""
    world, bound = PodWorld.read(), float(os.environ.get("DIJOB_CONNECT_SECONDS") or "120")
    if world is None or not hasattr(router._mq, "missing"):
        return
    worker = max(0, min(router.node_id - world.node_ids[0], world.workers - 1))
    world = replace(world, worker=worker)
    router.dijob_hub = world.topology == "star" and world.rank == 0
    # If the program determines its connections itself, the job's peers are not expected to connect.
    wanted = set() if OWN_WIRING in os.environ else select_peers(world)
    begin = told = time.monotonic()
    while bound > 0 and router._listener.is_alive():
        missing, now = router._mq.missing(world, wanted), time.monotonic()
        if not missing:
            return
        # The task ended before this program started (kept.py), so the missing ranks have left. The
        # program starts, and immediately receives the event for the end of the task.
        if getattr(router, "dijob_over", False):
            log_message(f"not waiting for {_format_ranks(missing)}: the task has already ended")
            return
        if now - begin >= bound:
            text = "starting the program without %s: no connection within %g s"
            log_message(text % (_format_ranks(missing), bound))
            if wanted:
                _report_missing(router, world, wanted, missing)
            return
        if now - told >= SAY_EACH_SECONDS:
            told = now
            log_message(f"has waited {now - begin:.0f} s for {_format_ranks(missing)} to connect")
        time.sleep(LOOK_SECONDS)


def _report_missing(
    router: Any, world: PodWorld, wanted: set[tuple[int, int]], missing: set[int]
) -> None:
    """Report the missing ranks to the launcher until all are connected. Until then, the launcher
    keeps the port of the readiness probe closed, so that the rank is not Ready.
    """
    file = LACKING.with_name(f"{LACKING.name}-{router.node_id}")
    with suppress(OSError):  # without a launcher the directory does not exist
        file.write_text(_format_ranks(missing) + "\n")
    # Pass `_listener` and `_mq` to the thread now, because the router sets both to None when it
    # stops.
    known = (router._listener, router._mq, world, wanted, file)
    threading.Thread(target=_await_late, args=known, daemon=True).start()


def _await_late(
    listener: threading.Thread, mq: Any, world: PodWorld, wanted: set[tuple[int, int]], file: Path
) -> None:
    while listener.is_alive():
        if not mq.missing(world, wanted):
            log_message("the ranks that were missing at the start are connected now")
            with suppress(OSError):
                file.unlink()
            return
        time.sleep(LATE_LOOK_SECONDS)


def _format_ranks(ranks: set[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, sorted(ranks)))


def select_peers(world: PodWorld) -> set[tuple[int, int]]:
    """Return (rank, worker) pairs for the processes to which this process connects, and for those
    that connect to it. With Redis, these are all other processes, because all of them communicate
    through one server.

    The rules are those of ding 0.5.3: ding/entry/cli_parsers/k8s_parser.py between pods, and
    ding/framework/parallel.py within a pod.
    """
    me = world.me
    alive = [rank for rank, address in enumerate(world.addresses) if address != PLACEHOLDER]
    others = {(rank, one) for rank in alive for one in range(world.workers)} - {me}
    if world.mq_type == "redis" and world.topology != "alone":
        return others
    own = {
        (world.rank, one)
        for one in range(world.workers)
        if are_connected(world.topology, world.worker, one)
    }
    far = {(rank, one) for rank, one in others if are_connected(world.topology, world.rank, rank)}
    return own | far
