"""Reads a process's place in its DIJob from the environment variables, and checks that the process
can reach its peers.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dijob_runtime.topology import connects_to

# The launcher's program `reach`, which the operator mounts into the pod (docs/runtimes.md).
REACH = Path("/run/dijob/bin/reach")
# The directory of topology.json. Processes write files for the launcher there.
FOLDER = REACH.parents[1]
# The exit code of `reach` if a peer cannot be reached (the launcher's reach/reach.go).
UNREACHABLE = 3


class NotReachable(RuntimeError):
    """A peer's address cannot be reached. The message on stderr names the rank."""


@dataclass(frozen=True)
class PodWorld:
    """One pod's place in its job. `addresses` is the peer list, in rank order; each pod has
    `workers` processes.
    """

    rank: int
    addresses: tuple[str, ...]
    workers: int
    topology: str
    labels: tuple[str, ...] = ()
    mq_type: str = "nng"
    worker: int = 0  # this process's number in its pod

    @staticmethod
    def read(env: Mapping[str, str] = os.environ) -> PodWorld | None:
        """Return the world, or None outside a DIJob. Raises ValueError with the name of a variable
        that is missing or wrong.
        """
        if not env.get("DI_NODES"):
            # Only a pod of a DIJob has a rank, so this program belongs to a job.
            if env.get("DI_RANK"):
                raise ValueError(
                    "DI_NODES is empty: the pod has no peer list yet (docs/runtimes.md)"
                )
            return None
        world = PodWorld(
            _read_number(env, "DI_RANK", None),
            tuple(_bracket_address(address) for address in env["DI_NODES"].split(",")),
            _read_number(env, "DI_PARALLEL_WORKERS", 1),
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
        """This process as (rank, worker)."""
        return self.rank, self.worker

    @property
    def node_ids(self) -> list[int]:
        """The node IDs that DI-engine gives this pod's processes: rank * workers + i (ding 0.5.3,
        k8s_parser.py).
        """
        return list(range(self.rank * self.workers, (self.rank + 1) * self.workers))

    @property
    def dialled(self) -> range:
        """The ranks to which this rank connects (ding 0.5.3, k8s_parser.py)."""
        return connects_to(self.topology, self.rank)


def wait_for_peers(world: PodWorld, port: int) -> None:
    """Wait until every address to which this pod connects can be reached.

    Raises NotReachable after DIJOB_REACH_SECONDS (60). NNG never retries an address that has no
    route, and logs nothing, so the job would hang without this check.
    """
    if world.dialled:
        _wait_until_reachable(world.topology, str(port), str(world.workers))


def wait_for_redis(host: str, port: int) -> None:
    """Wait until the Redis server answers. Raises NotReachable after DIJOB_REACH_SECONDS (60)."""
    _wait_until_reachable("redis", host, str(port))


def _wait_until_reachable(*words: str) -> None:
    if os.environ.get("DIJOB_REACH_SECONDS") == "0":
        return
    try:
        code = subprocess.run([str(REACH), *words], check=False).returncode
    except OSError:  # without a launcher the program does not exist, and the check is skipped
        return
    # Any other exit code means that the check has succeeded or could not run. A check that could
    # not run must not stop the user's program.
    if code == UNREACHABLE:
        raise NotReachable(
            "cannot reach an address that this process connects to; see the line above"
        )


def _read_number(env: Mapping[str, str], name: str, default: int | None) -> int:
    text = env.get(name) or ("" if default is None else str(default))
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} is {text!r}; it must be a number")
    return int(text)


def _bracket_address(address: str) -> str:
    """Return an address as it is written in a URL: an IPv6 address gets brackets."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
