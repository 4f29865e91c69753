"""The arguments of DI-engine's Parallel.runner in a DIJob, for scripts that do not use ditask.

The import hook (hook/parallel.py) applies the same arguments, so that a script behaves the same
with and without a call to parallel_args().
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dijob_runtime.messages import log_message
from dijob_runtime.ports import first_port
from dijob_runtime.world import FOLDER, PodWorld, wait_for_peers, wait_for_redis

# DI-engine's first port under Kubernetes (ding 0.5.3, ding/entry/cli_parsers/k8s_parser.py).
BASE_PORT = 50515
# The launcher reads this file (run/watcher.go).
OTHERWISE = FOLDER / "says-otherwise"
# `kubectl dijob topology` and `doctor` read this file (operator/dijob/cli/topology/sockets.py).
WORKERS = FOLDER / "workers"
# Set as soon as the variables describe the program's own world instead of the job's
# (hook/parallel.py). Child processes then do not warn again.
TOLD = "DIJOB_TOLD"


def parallel_args(**given: Any) -> dict[str, Any]:
    """Return the arguments that ditask would pass to Parallel.runner in this pod of a DIJob.

    Arguments in `given` that are not None take precedence, and the other arguments are consistent
    with them. Outside a DIJob the arguments are those for one machine, with one process or the
    given number of processes.

    In a DIJob, the function returns only when every peer's address can be reached. Raises
    NotReachable, after printing a message to stderr, if an address cannot be reached. Raises
    ValueError for ports that the peers cannot know.
    """
    given = without_none(given)
    world = PodWorld.read()
    if world is None:
        return {"n_parallel_workers": 1, **given}
    _report_conflicts(world, given)
    world = with_arguments(world, given)
    if _is_list_of_ports(world, given):
        given = {**given, "ports": first_port(given["ports"], world.workers)}
    args = _common_arguments(world)
    args.update(redis_arguments() if world.mq_type == "redis" else _nng_arguments(world, given))
    args.update(given)
    if args["mq_type"].startswith("torchrpc"):
        # `runner` needs torch and DI-engine. It is imported only here, because this module must
        # also work without them.
        from dijob_runtime.torchrpc import runner

        runner.install()
    if args["mq_type"] != "redis" and "attach_to" not in given:
        wait_for_peers(world, args["ports"])
    elif args["mq_type"] == "redis":
        wait_for_redis(args["redis_host"], args["redis_port"])
    return args


def without_none(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None.

    Seven arguments of Parallel.runner have the default None. If one of the others is None,
    DI-engine fails or behaves as with that argument's default (ding 0.5.3,
    ding/framework/parallel.py). Scripts often pass on options that are None.
    """
    return {name: value for name, value in arguments.items() if value is not None}


def with_arguments(world: PodWorld, given: dict[str, Any]) -> PodWorld:
    """Return the world, updated with the arguments of Parallel.runner in `given`. These values
    apply to all ranks, because every rank runs the same program.
    """
    names = {"n_parallel_workers": "workers", "topology": "topology", "mq_type": "mq_type"}
    return replace(
        world, **{ours: given[theirs] for theirs, ours in names.items() if theirs in given}
    )


def report_workers(workers: int) -> None:
    """Record the number of this pod's processes, because the job might not state it."""
    with suppress(OSError):  # outside a pod the directory does not exist
        WORKERS.write_text(f"parallel-workers {workers}\n")


def links_of(world: PodWorld, first: int) -> list[str]:
    """Return the addresses to which this pod's processes connect. Worker i of each pod listens on
    port `first` + i.
    """
    return [
        f"tcp://{world.addresses[rank]}:{first + worker}"
        for rank in world.dialled
        for worker in range(world.workers)
    ]


def find_conflicts(world: PodWorld, given: dict[str, Any]) -> list[str]:
    """Return a message for each argument that conflicts with the job."""
    fields = {
        "n_parallel_workers": ("spec.parallelWorkers", world.workers),
        "topology": ("spec.topology", world.topology),
        "mq_type": ("spec.messageQueue.type", world.mq_type),
    }
    # The operator sets this variable if the job does not state the number of workers. In this case,
    # the operator assumes 1.
    if os.environ.get("DIJOB_WORKERS_ASSUMED"):
        del fields["n_parallel_workers"]
    if len(world.addresses) == 1 or world.mq_type == "redis":
        del fields["topology"]  # pods do not connect to each other, so it has no effect
    return [
        f"{name}={given[name]!r}, but the job has {jobs!r}: set {field} to the same value"
        for name, (field, jobs) in fields.items()
        if not _values_agree(given.get(name, jobs), jobs)
    ]


def _values_agree(said: Any, jobs: Any) -> bool:
    """Whether two values agree. All variants of torchrpc agree with each other, because they differ
    only in their GPUs (torchrpc/runner.py).
    """
    return said == jobs or {str(said).partition(":")[0], str(jobs).partition(":")[0]} == {
        "torchrpc"
    }


def _report_conflicts(world: PodWorld, given: dict[str, Any]) -> None:
    """Report arguments that conflict with the job. The program's values apply nevertheless.

    The conflicts are also written to the file OTHERWISE. After the program has succeeded, the
    launcher copies this file to the termination message, which the operator reports as a condition.
    """
    found = "; ".join(find_conflicts(world, given))
    if not found or os.environ.get(TOLD):
        return
    log_message(f"WARNING: the program's arguments conflict with the job: {found}")
    # Without a launcher, the conflicts are only in the log.
    with suppress(OSError), OTHERWISE.open("a") as file:
        file.write(found + "\n")


def _common_arguments(world: PodWorld) -> dict[str, Any]:
    return {
        "n_parallel_workers": world.workers,
        "mq_type": world.mq_type,
        "topology": world.topology,
        "labels": set(world.labels) or None,
        "node_ids": world.node_ids,
    }


def _is_list_of_ports(world: PodWorld, given: dict[str, Any]) -> bool:
    """Return whether the ports are given as a list and other ranks need them in order to
    connect.
    """
    connects = world.mq_type != "redis" and "attach_to" not in given
    return connects and not isinstance(given.get("ports", BASE_PORT), int)


def _nng_arguments(world: PodWorld, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments for nng and torchrpc.

    The pod's workers listen on the pod's own address, each on its own port. They connect to all
    workers of the ranks that the topology selects.
    """
    first = given.get("ports", BASE_PORT)
    if "attach_to" in given:
        return {"protocol": "tcp", "address": world.addresses[world.rank], "ports": first}
    return {
        "protocol": "tcp",
        "address": world.addresses[world.rank],
        "ports": first,
        "attach_to": links_of(world, first),
    }


def redis_arguments() -> dict[str, Any]:
    """Return the arguments for Redis, to which every process connects."""
    host, port = (
        os.environ.get("DI_REDIS_HOST") or "localhost",
        os.environ.get("DI_REDIS_PORT") or "6379",
    )
    return {"redis_host": host, "redis_port": int(port)}
