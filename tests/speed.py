"""How fast the machine is just now, so that a bound on CPU seconds is as strict on a slow one."""

import json
import time
from dataclasses import dataclass, replace

# What `_work` takes at best on the machine on which the bounds of the tests were set.
REFERENCE_SECONDS = 0.0087


@dataclass(frozen=True)
class _Row:
    rank: int
    name: str


def allowed(seconds: float) -> float:
    """What a bound of so many CPU seconds is on this machine: more on a slower one, never less.

    What runs beside it on the same processor counts too, so this is asked right beside what is
    measured.
    """
    return seconds * max(1.0, min(_seconds() for _ in range(3)) / REFERENCE_SECONDS)


def _seconds() -> float:
    begin = time.thread_time()
    _work()
    return time.thread_time() - begin


def _work() -> None:
    """Some of what the operator does all day: small objects, dictionaries, JSON."""
    rows = {rank: _Row(rank, f"job-{rank}") for rank in range(3_000)}
    moved = {rank: replace(row, rank=rank + 1) for rank, row in rows.items()}
    text = json.dumps([{"rank": row.rank, "name": row.name} for row in moved.values()])
    assert len(json.loads(text)) == len(rows)
