"""The arguments of DI-engine's Parallel.runner, for scripts that do not use ditask."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dijob_runtime.said import say
from dijob_runtime.world import FOLDER, World, wait_for_peers, wait_for_redis

# DI-engine's first port under Kubernetes (ding 0.5.3, ding/entry/cli_parsers/k8s_parser.py).
BASE_PORT = 50515
# Read by the launcher (images/launcher/watcher.go).
OTHERWISE = FOLDER / "says-otherwise"
# Read by `kubectl dijob topology` and `doctor` (operator/dijob/cli/topology/sockets.py).
WORKERS = FOLDER / "workers"
# Set once the variables are the program's own world (hook/parallel.py).
TOLD = "DIJOB_TOLD"


def parallel_args(**given: Any) -> dict[str, Any]:
    """What ditask would tell Parallel.runner in this pod of a DIJob; what is `given`, and not None,
    wins, and all follows from it.

    Outside a DIJob these are the arguments of one machine: one process, or as many as given. In one
    it returns only when every peer's address can be reached; NotReachable, with a sentence on
    stderr, when one cannot. ValueError for ports that the peers cannot know.
    """
    given = without_none(given)
    world = World.read()
    if world is None:
        return {"n_parallel_workers": 1, **given}
    _warn(world, given)
    world = with_arguments(world, given)
    args = _common(world)
    args.update(broker() if world.mq_type == "redis" else _nng(world, given))
    args.update(given)
    if args["mq_type"].startswith("torchrpc"):
        # Here, since it needs torch and DI-engine: the rest of this package needs neither.
        from dijob_runtime.torchrpc import runner

        runner.install()
    if args["mq_type"] != "redis" and "attach_to" not in given:
        wait_for_peers(world, args["ports"])
    elif args["mq_type"] == "redis":
        wait_for_redis(args["redis_host"], args["redis_port"])
    return args


def without_none(arguments: dict[str, Any]) -> dict[str, Any]:
    """What is given of these arguments of Parallel.runner: to DI-engine None is each one's default,
    or as good as that, or an error (ding 0.5.3, ding/framework/parallel.py).
    """
    return {name: value for name, value in arguments.items() if value is not None}


def with_arguments(world: World, given: dict[str, Any]) -> World:
    """The world as these arguments of Parallel.runner have it: every rank runs the same program."""
    names = {"n_parallel_workers": "workers", "topology": "topology", "mq_type": "mq_type"}
    return replace(
        world, **{ours: given[theirs] for theirs, ours in names.items() if theirs in given}
    )


def report_workers(workers: int) -> None:
    """Write down how many processes this pod has: the job may not state it."""
    with suppress(OSError):  # not in a pod
        WORKERS.write_text(f"parallel-workers {workers}\n")


def links_of(world: World, first: int) -> list[str]:
    """What this pod's processes dial, where worker i of each pod listens on port `first` + i."""
    return [
        f"tcp://{world.addresses[rank]}:{first + worker}"
        for rank in world.dialled
        for worker in range(world.workers)
    ]


def contradictions(world: World, given: dict[str, Any]) -> list[str]:
    """A sentence for each argument with which the program contradicts its job."""
    fields = {
        "n_parallel_workers": ("spec.parallelWorkers", world.workers),
        "topology": ("spec.topology", world.topology),
        "mq_type": ("spec.messageQueue.type", world.mq_type),
    }
    if os.environ.get("DIJOB_WORKERS_ASSUMED"):
        del fields["n_parallel_workers"]
    if len(world.addresses) == 1 or world.mq_type == "redis":
        del fields["topology"]  # nobody dials another pod
    return [
        f"{name}={given[name]!r}, but the job has {jobs!r}: set {field} to the same value"
        for name, (field, jobs) in fields.items()
        if not _agree(given.get(name, jobs), jobs)
    ]


def _agree(said: Any, jobs: Any) -> bool:
    """torchrpc alone stands for torchrpc:cpu or torchrpc:cuda."""
    return said == jobs or {str(said).partition(":")[0], str(jobs).partition(":")[0]} == {
        "torchrpc"
    }


def _warn(world: World, given: dict[str, Any]) -> None:
    """Say where the program contradicts its job, in the log, and to the launcher, which tells the
    operator in the end; the program's word holds all the same.
    """
    found = "; ".join(contradictions(world, given))
    if not found or os.environ.get(TOLD):
        return
    say(f"WARNING: the program's arguments conflict with the job: {found}")
    with suppress(OSError), OTHERWISE.open("a") as file:  # without a launcher the log alone has it
        file.write(found + "\n")


def _common(world: World) -> dict[str, Any]:
    return {
        "n_parallel_workers": world.workers,
        "mq_type": world.mq_type,
        "topology": world.topology,
        "labels": set(world.labels) or None,
        "node_ids": world.node_ids,
    }


def _nng(world: World, given: dict[str, Any]) -> dict[str, Any]:
    """Listen on the pod's own address, one port per worker; dial all workers of the ranks that the
    topology names.
    """
    first = given.get("ports", BASE_PORT)
    if "attach_to" in given:
        return {"protocol": "tcp", "address": world.addresses[world.rank], "ports": first}
    if not isinstance(first, int):
        raise ValueError(
            f"ports is {first!r}; pass only the first port: worker i of each pod listens on port"
            " + i"
        )
    return {
        "protocol": "tcp",
        "address": world.addresses[world.rank],
        "ports": first,
        "attach_to": links_of(world, first),
    }


def broker() -> dict[str, Any]:
    """Redis, which every process connects to."""
    host, port = (
        os.environ.get("DI_REDIS_HOST") or "localhost",
        os.environ.get("DI_REDIS_PORT") or "6379",
    )
    return {"redis_host": host, "redis_port": int(port)}
