"""The program of a process begins once the processes that this start's list names are connected to
it, as its topology says: what it says first is heard.
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
from dijob_runtime.said import say
from dijob_runtime.topology import are_connected
from dijob_runtime.world import FOLDER, World

# Stands in a list for a rank that has succeeded (operator/dijob/core/membership/address_list.py).
NOBODY = "127.0.0.2"
LOOK_SECONDS = 0.05
SAY_EACH_SECONDS = 10.0
# Between two looks whether the peers have come that the program began without.
LATE_LOOK_SECONDS = 1.0
# Read by the launcher (images/launcher/readiness.go): the ranks that a process began without.
LACKING = FOLDER / "without-peers"


def patch(parallel: Any) -> None:
    """Before DI-engine calls the program's main function, in whatever process that is."""
    usual = parallel._supervised_runner

    def supervised(router: Any, main: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        wait(router)
        usual(router, main, *args, **kwargs)

    parallel._supervised_runner = supervised


def wait(router: Any) -> None:
    """Wait until all are connected, at most DIJOB_CONNECT_SECONDS (120; 0: not at all)."""
    world, bound = World.read(), float(os.environ.get("DIJOB_CONNECT_SECONDS") or "120")
    if world is None or not hasattr(router._mq, "missing"):
        return
    worker = max(0, min(router.node_id - world.node_ids[0], world.workers - 1))
    world = replace(world, worker=worker)
    router.dijob_hub = world.topology == "star" and world.rank == 0
    wanted = set() if OWN_WIRING in os.environ else peers(world)
    begin = told = time.monotonic()
    while bound > 0 and router._listener.is_alive():
        missing, now = router._mq.missing(world, wanted), time.monotonic()
        if not missing:
            return
        if now - begin >= bound:
            text = "the program starts without %s: not connected after %g s"
            say(text % (_ranks(missing), bound))
            if wanted:
                _report(router, world, wanted, missing)
            return
        if now - told >= SAY_EACH_SECONDS:
            told = now
            say(f"has waited {now - begin:.0f} s for {_ranks(missing)} to connect")
        time.sleep(LOOK_SECONDS)


def _report(router: Any, world: World, wanted: set[tuple[int, int]], missing: set[int]) -> None:
    """Tell the launcher which ranks this process lacks, until all are connected."""
    file = LACKING.with_name(f"{LACKING.name}-{router.node_id}")
    with suppress(OSError):  # without a launcher the log alone has it
        file.write_text(_ranks(missing) + "\n")
    # The router forgets both when it stops.
    known = (router._listener, router._mq, world, wanted, file)
    threading.Thread(target=_await_late, args=known, daemon=True).start()


def _await_late(
    listener: threading.Thread, mq: Any, world: World, wanted: set[tuple[int, int]], file: Path
) -> None:
    while listener.is_alive():
        if not mq.missing(world, wanted):
            say("the ranks that were missing at the start are connected now")
            with suppress(OSError):
                file.unlink()
            return
        time.sleep(LATE_LOOK_SECONDS)


def _ranks(ranks: set[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, sorted(ranks)))


def peers(world: World) -> set[tuple[int, int]]:
    """The processes, as rank and worker, that this one has a connection with: those that it dials
    and those that dial it (ding 0.5.3, ding/entry/cli_parsers/k8s_parser.py, and
    ding/framework/parallel.py for those of one pod). With redis all meet at the server.
    """
    me = world.me
    alive = [rank for rank, address in enumerate(world.addresses) if address != NOBODY]
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
