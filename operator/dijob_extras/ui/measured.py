"""Measures the resource use of a job's programs in their pods: CPU and memory from the kernel's
cgroup files, and GPUs with nvidia-smi.

A container sees its own cgroup files. Both versions of cgroups are supported. The answers come from
the tenant's container, so they are untrusted text.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from dijob.cli.probing import ask_ranks
from dijob.core.render.quantities import Amounts

if TYPE_CHECKING:
    from dijob.client import AsyncClient, RankPod

# Each rank costs a request, so no more than this many ranks are measured.
MOST_RANKS: Final = 32
_CPU: Final = ("cpu.stat", "cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage")
_MEMORY: Final = ("memory.current", "memory/memory.usage_in_bytes")
_CACHED: Final = ("memory.stat", "memory/memory.stat")
_GPUS: Final = "gpus"
_SCRIPT: Final = f"""
cd /sys/fs/cgroup
for file in {" ".join((*_CPU, *_MEMORY, *_CACHED))}; do
  if [ -r $file ]; then echo "# $file"; cat $file; fi
done
if command -v nvidia-smi >/dev/null; then
  echo "# {_GPUS}"
  nvidia-smi --query-gpu=utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits
fi
"""
_MIB: Final = Decimal(2**20)
# The longest value that a container may report.
_MOST_DIGITS: Final = 20


@dataclass(frozen=True)
class GpuUse:
    """A GPU's utilization in percent, and its memory use in bytes."""

    busy: int
    memory: Decimal
    of: Decimal


@dataclass(frozen=True)
class Measurement:
    """What a container has used: CPU seconds since its start, memory in bytes (without the file
    cache that the kernel can drop), and its GPUs. `taken` is the time of the measurement, in
    seconds of a monotonic clock.
    """

    taken: float
    cpu_seconds: Decimal | None = None
    memory: Decimal | None = None
    gpus: tuple[GpuUse, ...] = field(default=())


async def measure_ranks(
    client: "AsyncClient", pods: "Sequence[RankPod]"
) -> Mapping[str, Measurement]:
    """Measure the running ranks, and return the measurements by pod name. Ranks that cannot be
    measured are left out.
    """
    running = [pod for pod in pods if pod.running][:MOST_RANKS]
    answers = await ask_ranks(client, running, [("sh", "-c", _SCRIPT)])
    now = time.monotonic()
    return {pod.name: read_measurement(answers[pod.rank].text, now) for pod in running}


def read_measurement(text: str, taken: float) -> Measurement:
    """Parse the output of the script in a container."""
    sections = _split_sections(text)
    memory = _first_number(sections, _MEMORY)
    if memory is not None:
        cached = _find_value(sections, _CACHED, ("total_inactive_file", "inactive_file"))
        memory = max(memory - (cached or 0), Decimal(0))
    return Measurement(taken, _read_cpu(sections), memory, _read_gpus(sections.get(_GPUS, ())))


def compute_use(now: Measurement, before: Measurement | None) -> Amounts:
    """Return the CPUs and bytes of memory in use. The CPU use is computed from two measurements of
    the same container. A negative difference means that the container has restarted.
    """
    found: Amounts = {}
    if before and now.cpu_seconds is not None and before.cpu_seconds is not None:
        seconds = Decimal(str(now.taken - before.taken))
        used = now.cpu_seconds - before.cpu_seconds
        if seconds > 0 and used >= 0:
            found["cpu"] = used / seconds
    if now.memory is not None:
        found["memory"] = now.memory
    return found


def _split_sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("# "):
            lines = found.setdefault(line.removeprefix("# "), [])
        else:
            lines.append(line)
    return found


def _read_cpu(sections: Mapping[str, Sequence[str]]) -> Decimal | None:
    micro = _find_value(sections, _CPU[:1], ("usage_usec",))
    if micro is not None:
        return micro / 1_000_000
    nano = _first_number(sections, _CPU[1:])
    return None if nano is None else nano / 1_000_000_000


def _first_number(sections: Mapping[str, Sequence[str]], names: Iterable[str]) -> Decimal | None:
    lines = (line for name in names for line in sections.get(name, ())[:1])
    return next((value for line in lines if (value := _parse(line)) is not None), None)


def _find_value(
    sections: Mapping[str, Sequence[str]], names: Iterable[str], keys: Iterable[str]
) -> Decimal | None:
    """Search files with lines of the form `KEY VALUE`, and return the value of the first key that
    is present.
    """
    for name in names:
        values = dict(line.split(" ", 1) for line in sections.get(name, ()) if " " in line)
        for key in keys:
            if (found := _parse(values.get(key, ""))) is not None:
                return found
    return None


def _read_gpus(lines: Iterable[str]) -> tuple[GpuUse, ...]:
    rows = ([_parse(word) for word in line.split(",")] for line in lines)
    return tuple(
        GpuUse(min(int(row[0]), 100), row[1] * _MIB, row[2] * _MIB)
        for row in rows
        if len(row) == 3 and row[0] is not None and row[1] is not None and row[2] is not None
    )


def _parse(text: str) -> Decimal | None:
    word = text.strip()
    fits = word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS
    return Decimal(word) if fits else None
