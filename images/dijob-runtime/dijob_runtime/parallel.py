"""The arguments of DI-engine's Parallel.runner, for scripts that do not use ditask."""

from __future__ import annotations

import os
from typing import Any

from dijob_runtime.world import World, wait_for_peers, wait_for_redis

# DI-engine's first port under Kubernetes (ding 0.5.3, ding/entry/cli_parsers/k8s_parser.py).
BASE_PORT = 50515


def parallel_args(**given: Any) -> dict[str, Any]:
    """What ditask would tell Parallel.runner in this pod of a DIJob; what is `given` wins.

    Outside a DIJob these are the arguments of one machine: one process, or as many as given. In one it returns only
    when every peer's address can be reached; NotReachable, with a sentence on stderr, when one cannot.
    """
    world = World.read()
    if world is None:
        return {"n_parallel_workers": 1, **given}
    args = _common(world)
    args.update(_broker() if world.mq_type == "redis" else _nng(world))
    args.update(given)
    if args["mq_type"].startswith("torchrpc"):
        # Here, since it needs torch and DI-engine: the rest of this package needs neither.
        from dijob_runtime.torchrpc import runner

        runner.install()
    if args["mq_type"] != "redis" and "attach_to" not in given:
        wait_for_peers(world, int(args["ports"]))
    elif args["mq_type"] == "redis":
        wait_for_redis(args["redis_host"], args["redis_port"])
    return args


def _common(world: World) -> dict[str, Any]:
    return {
        "n_parallel_workers": world.workers,
        "mq_type": world.mq_type,
        "topology": world.topology,
        "labels": set(world.labels) or None,
        "node_ids": world.node_ids,
    }


def _nng(world: World) -> dict[str, Any]:
    """Listen on the pod's own address, one port per worker; dial all workers of the ranks that the topology names."""
    ports = [BASE_PORT + worker for worker in range(world.workers)]
    return {
        "protocol": "tcp",
        "address": world.addresses[world.rank],
        "ports": BASE_PORT,
        "attach_to": [f"tcp://{world.addresses[rank]}:{port}" for rank in world.dialled for port in ports],
    }


def _broker() -> dict[str, Any]:
    """Redis, which every process connects to."""
    host, port = os.environ.get("DI_REDIS_HOST") or "localhost", os.environ.get("DI_REDIS_PORT") or "6379"
    return {"redis_host": host, "redis_port": int(port)}
