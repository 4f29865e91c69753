"""The figures of one run of the benchmark as a file, with the machine on which it ran."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from faults.lab.restarts import Restart
from measured import Change, Rest, Result, Shape
from pydantic import TypeAdapter

Tables = dict[Shape, dict[str, Result]]
# Up to this load average, no other load can have influenced the figures.
QUIET_LOAD = 0.5


@dataclass(frozen=True)
class Machine:
    """The date, the machine, and its other load: the load average before the first start."""

    date: str
    cores: int
    gib: int
    load: float

    @staticmethod
    def here() -> "Machine":
        """Return this machine with its current load."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        today, load = datetime.now(UTC).date().isoformat(), round(os.getloadavg()[0], 1)
        return Machine(today, os.cpu_count() or 0, round(memory / 2**30), load)

    def __str__(self) -> str:
        beside = (
            "no other load"
            if self.load <= QUIET_LOAD
            else f"**load average {self.load:.1f} in the minute before the first start**. If other"
            " work caused this load and continued during the run, the times are too long and the"
            " ratios are imprecise"
        )
        return f"{self.date}, {self.cores} cores, {self.gib} GiB, {beside}."


@dataclass(frozen=True)
class Start:
    """A start of one shape by one entrant."""

    shape: Shape
    entrant: str
    result: Result


@dataclass
class Report:
    """All figures of one run. `make bench` has only starts."""

    machine: Machine
    starts: list[Start] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    rest: Rest | None = None
    restarts: list[Restart] = field(default_factory=list)
    # The same while all launchers reconnect to the new operator.
    reconnects: list[Restart] = field(default_factory=list)

    @property
    def tables(self) -> Tables:
        """Return the starts by shape and entrant."""
        found: Tables = {}
        for start in self.starts:
            found.setdefault(start.shape, {})[start.entrant] = start.result
        return found

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        path.write_bytes(ADAPTER.dump_json(self, indent=1) + b"\n")

    @staticmethod
    def read(path: Path) -> "Report":
        """Read a saved report."""
        return ADAPTER.validate_json(path.read_bytes())


ADAPTER = TypeAdapter(Report)


def named(tables: Mapping[Shape, Mapping[str, Result]]) -> Iterator[tuple[Shape, str, Result]]:
    """Yield all starts with their shapes and entrants."""
    for shape, results in tables.items():
        for name, result in results.items():
            yield shape, name, result
