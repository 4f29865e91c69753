"""What a process knows of its DIJob, from the environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dijob_runtime.topology import connects_to

# Where the operator mounts its own files (docs/runtimes.md).
REACH = Path("/run/dijob/bin/reach")
# What a process tells the launcher is in files there, beside topology.json.
FOLDER = REACH.parents[1]
# Its exit code where some peer cannot be reached (images/launcher/reach.go).
UNREACHABLE = 3


class NotReachable(RuntimeError):
    """Some peer's address cannot be reached; the sentence on stderr says whose."""


@dataclass(frozen=True)
class World:
    """One pod's place in its job: `addresses` in rank order, `workers` processes in each pod."""

    rank: int
    addresses: tuple[str, ...]
    workers: int
    topology: str
    labels: tuple[str, ...] = ()
    mq_type: str = "nng"
    worker: int = 0  # this process's number in its pod

    @staticmethod
    def read(env: Mapping[str, str] = os.environ) -> World | None:
        """The world, None outside a DIJob. ValueError with the variable's name where one is missing
        or wrong.
        """
        if not env.get("DI_NODES"):
            if env.get("DI_RANK"):
                raise ValueError(
                    "DI_NODES is empty: the pod has no peer list yet (docs/runtimes.md)"
                )
            return None
        world = World(
            _number(env, "DI_RANK", None),
            tuple(_bracketed(address) for address in env["DI_NODES"].split(",")),
            _number(env, "DI_PARALLEL_WORKERS", 1),
            env.get("DI_TOPOLOGY") or "mesh",
            tuple(filter(None, (label.strip() for label in env.get("DI_LABELS", "").split(",")))),
            env.get("DI_MQ_TYPE") or "nng",
        )
        if world.rank >= len(world.addresses):
            raise ValueError(
                f"DI_RANK is {world.rank}, but DI_NODES has {len(world.addresses)} addresses"
            )
        return world

    @property
    def me(self) -> tuple[int, int]:
        """This process, as rank and worker."""
        return self.rank, self.worker

    @property
    def node_ids(self) -> list[int]:
        """DI-engine's node ids of this pod's processes: rank * workers + i (ding 0.5.3,
        k8s_parser.py).
        """
        return list(range(self.rank * self.workers, (self.rank + 1) * self.workers))

    @property
    def dialled(self) -> range:
        """The ranks whose addresses this one connects to (ding 0.5.3, k8s_parser.py)."""
        return connects_to(self.topology, self.rank)


def wait_for_peers(world: World, port: int) -> None:
    """Wait until every address that this pod dials can be reached. NotReachable after
    DIJOB_REACH_SECONDS (60).

    NNG never tries an address again that it could not route to, and says nothing: the job would
    hang.
    """
    if world.dialled:
        _wait(world.topology, str(port), str(world.workers))


def wait_for_redis(host: str, port: int) -> None:
    """Wait until the server answers. NotReachable after DIJOB_REACH_SECONDS (60)."""
    _wait("redis", host, str(port))


def _wait(*words: str) -> None:
    if os.environ.get("DIJOB_REACH_SECONDS") == "0":
        return
    try:
        code = subprocess.run([str(REACH), *words], check=False).returncode
    except OSError:  # it is not there, or cannot run: nothing is looked at
        return
    if code == UNREACHABLE:
        raise NotReachable(
            "cannot reach an address that this process connects to; see the line above"
        )


def _number(env: Mapping[str, str], name: str, default: int | None) -> int:
    text = env.get(name) or ("" if default is None else str(default))
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} is {text!r}; it must be a number")
    return int(text)


def _bracketed(address: str) -> str:
    """An IPv6 address as it stands in a URL."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
