"""Measures the current speed of the machine, to adapt bounds on CPU seconds to it."""

import json
import time
from dataclasses import dataclass, replace

# The best time of `_work` on the machine on which the bounds of the tests were set.
REFERENCE_SECONDS = 0.0087


@dataclass(frozen=True)
class _Row:
    rank: int
    name: str


def allowed(seconds: float) -> float:
    """Return a bound on CPU seconds for this machine: higher on a slower machine, never lower.

    Other load on the processor counts too, so call this directly before or after the measurement.
    """
    return seconds * max(1.0, min(_seconds() for _ in range(3)) / REFERENCE_SECONDS)


def _seconds() -> float:
    begin = time.thread_time()
    _work()
    return time.thread_time() - begin


def _work() -> None:
    """Do work that is typical of the operator: small objects, dictionaries, JSON."""
    rows = {rank: _Row(rank, f"job-{rank}") for rank in range(3_000)}
    moved = {rank: replace(row, rank=rank + 1) for rank, row in rows.items()}
    text = json.dumps([{"rank": row.rank, "name": row.name} for row in moved.values()])
    assert len(json.loads(text)) == len(rows)
