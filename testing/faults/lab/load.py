"""Measures the resource usage of the control plane's processes, and waits until they are idle."""

import asyncio
import re
from collections import Counter
from pathlib import Path

from cluster import Cluster
from cluster.process import recorded
from cluster.waiting import until_async

from faults.lab.running import usage_of

QUIET_SECONDS = 180.0
QUIET_CORES = 0.4


def plane_cpu(plane: Cluster) -> Counter[str]:
    """Return the CPU seconds that kwok and each control plane process have used so far."""
    found = recorded(plane.state)
    return Counter({name: usage_of(process.pid).cpu for name, process in found.items()})


def plane_memory(plane: Cluster) -> dict[str, float]:
    """Return the current resident memory of kwok and of each control plane process, and the size of
    etcd's file, in MB.
    """
    found = {name: round(_resident(process.pid)) for name, process in recorded(plane.state).items()}
    stored = (plane.state / "etcd/member/snap/db").stat().st_size
    return {**found, "etcd's file": round(stored / 2**20)}


def _resident(pid: int) -> float:
    said = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(said[1]) / 1024 if said else 0.0


async def quiet(plane: Cluster) -> None:
    """Wait until the control plane has processed objects that were created in bulk. Its controllers
    need half a minute, and meanwhile the apiserver's watch cache lags by thousands of versions.
    (Other tests may use the control plane at the same time.)
    """

    async def busy() -> str:
        before = plane_cpu(plane).total()
        await asyncio.sleep(2)
        used = (plane_cpu(plane).total() - before) / 2
        return f"its programs use {used:.1f} cores" if used > QUIET_CORES else ""

    await until_async("a quiet control plane", busy, QUIET_SECONDS)
