"""The results of a soak test: figures, their bounds, and the table."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from report import Machine

# The bound for the time from a job's creation until it is Running. A silent connection is noticed
# after at most 75 s (row T9 of docs/reliability.md). Only then can the job start.
P99_SECONDS = 100.0
# The memory of a Python process grows until the process has reached its peak of concurrent work.
# Halfway through a soak, it should have stopped growing.
SLOPE_MB, SLOPE_MINUTES = 20.0, 10.0


@dataclass(frozen=True)
class Sample:
    """One measurement of resident memory: the seconds since the beginning, the process (the
    operator's name and how often it has started), and the memory in MB.
    """

    at: float
    process: str
    rss: float


@dataclass(frozen=True)
class Soaked:
    """The results of one soak. `leaks` are tasks, sockets and child processes that did not exist
    before; `slope` is the growth of memory in MB per hour in the second half.
    """

    machine: Machine
    seed: int
    minutes: float
    jobs: int
    faults: dict[str, int]
    slope: float
    leaks: list[str]
    p50: float
    p99: float
    peak: float
    wrong: list[str]

    @staticmethod
    def read(file: Path) -> "Soaked":
        return TypeAdapter(Soaked).validate_json(file.read_bytes())

    def save(self, file: Path) -> None:
        file.write_bytes(TypeAdapter(Soaked).dump_json(self, indent=1) + b"\n")

    def rows(self) -> list[tuple[str, str, str, bool]]:
        """Return for each figure its name, value and bound, and whether it is within the bound."""
        # In a short run the normal growth at the start would count as a slope.
        long = self.minutes >= SLOPE_MINUTES
        slope = f"{self.slope:.1f} MB/h" if long else "too short to say"
        return [
            (
                "growth of resident memory",
                slope,
                f"{SLOPE_MB:g} MB/h",
                not long or self.slope <= SLOPE_MB,
            ),
            (
                "additional tasks, sockets and child processes",
                str(len(self.leaks)),
                "0",
                not self.leaks,
            ),
            (
                "creation to Running, p99",
                f"{self.p99:.1f} s",
                f"{P99_SECONDS:g} s",
                self.p99 <= P99_SECONDS,
            ),
            (
                "jobs with a wrong final state",
                str(len(self.wrong)),
                "0",
                not self.wrong,
            ),
        ]

    @property
    def within(self) -> bool:
        return all(row[-1] for row in self.rows())


def slope(samples: Sequence[Sample], since: float) -> float:
    """Return the growth in MB per hour since `since` (in seconds), by least squares.

    The growth of each process is computed separately, and the largest is returned; 0 if no process
    has grown. A process counts only if its samples cover at least 90 % of the time from `since` to
    the last sample of all processes.
    """
    found = [0.0]
    last = max((one.at for one in samples), default=0.0)
    for process in {one.process for one in samples}:
        own = [one for one in samples if one.process == process and one.at >= since]
        # A process that started later is still growing to its normal size.
        lived = own and own[-1].at - own[0].at >= 0.9 * (last - since)
        if lived and len(own) > 2:
            line = statistics.linear_regression([s.at for s in own], [s.rss for s in own])
            found.append(line.slope * 3600)
    return max(found)


def newest(samples: Sequence[Sample]) -> str:
    """Describe the last two samples, one from each operator."""
    return ", ".join(f"{one.process} {one.rss:.0f} MB" for one in samples[-2:])


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of the values; 0 if there are none. `share` is more than 0 and at most 1.
    For 0.99, the result is the smallest value such that 99 % of the values are not greater.
    """
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0


def table(soaked: Soaked) -> str:
    """Return the results as Markdown."""
    rows = "\n".join(
        f"| {name} | **{value}** | {bound} | {_verdict(within)} |"
        for name, value, bound, within in soaked.rows()
    )
    faults = ", ".join(f"`{name}`: {count}" for name, count in sorted(soaked.faults.items()))
    return (
        f"{soaked.machine} Seed {soaked.seed}, {soaked.minutes:g} minutes, {soaked.jobs} jobs;"
        f" creation to Running {soaked.p50:.1f} s (median); peak {soaked.peak:.0f} MB; number of"
        f" faults of each kind: {faults}.\n\n"
        f"| figure | measured | bound | verdict |\n|---|---|---|---|\n{rows}\n"
    )


def _verdict(within: bool) -> str:
    return "within" if within else "**OUT OF BOUND**"
