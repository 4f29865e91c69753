"""The training's progress, as the launcher of a pod reports it.

A user's program writes these values, so they can be anything: a value that is not a number within
its bounds is ignored.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# JSON parsers represent integers up to this number exactly.
MOST_COUNT = 2**53
# The launcher sends at most this many bytes (the launcher's stacks/stacks.go).
MOST_STACK = 4096


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The newest progress of the processes in one pod.

    `idle_seconds` is the time from the last progress until the report. `waiting_percent` is the
    percentage of time that the training process spends waiting for data, and `buffer_percent` is
    how full its buffer is.
    """

    iteration: int | None = None
    env_step: int | None = None
    episode_return: float | None = None
    signal: float | None = None
    waiting_percent: int | None = None
    buffer_percent: int | None = None
    idle_seconds: int | None = None

    @property
    def values(self) -> dict[str, float]:
        """The values for the job's status, keyed by the names of the model's fields."""
        found = {name: getattr(self, name) for name in _FIELDS if name != "idle_seconds"}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class RankProgress:
    """What is known about the progress of one rank.

    `connected`: its launcher is connected. `moved` is when the rank last made progress since its
    program started (None: never). `asked`: the launcher has been asked for the stack of the
    program's main thread, and the rank has made no progress since. `stack` is the launcher's
    answer, or None as long as there is no answer. The answer is the stack as faulthandler writes
    it, or "" if the launcher could not get a stack from the program.
    """

    connected: bool = False
    moved: datetime | None = None
    iteration: int | None = None
    waiting_percent: int | None = None
    asked: bool = False
    stack: str | None = None


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job with stallSeconds. `reported` is when the job last made progress,
    according to its newest report ("": there is no report). That report may be from an earlier run
    of the job's programs.
    """

    reported: str = ""
    iteration: int | None = None
    ranks: Mapping[int, RankProgress] = field(default_factory=dict)


def parse_progress(given: object) -> ProgressReport | None:
    """Return the progress in a launcher's report, or None if it has no valid value."""
    if not isinstance(given, Mapping):
        return None
    found = {field: read(given.get(name)) for field, (name, read) in _FIELDS.items()}
    report = ProgressReport(**found)
    return report if report.values else None


def parse_stack(given: object) -> str | None:
    """Return the stack in a launcher's report, or None if it has none."""
    text = given.get("text") if isinstance(given, Mapping) else None
    return text[:MOST_STACK] if isinstance(text, str) else None


def _integer(most: int) -> Callable[[object], Any]:
    def read(given: object) -> int | None:
        if not isinstance(given, int) or isinstance(given, bool):
            return None
        return given if 0 <= given <= most else None

    return read


def _number(given: object) -> float | None:
    if not isinstance(given, int | float) or isinstance(given, bool):
        return None
    try:
        number = float(given)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


_FIELDS: dict[str, tuple[str, Callable[[object], Any]]] = {
    "iteration": ("iteration", _integer(MOST_COUNT)),
    "env_step": ("envStep", _integer(MOST_COUNT)),
    "episode_return": ("episodeReturn", _number),
    "signal": ("signal", _number),
    "waiting_percent": ("waitingPercent", _integer(100)),
    "buffer_percent": ("bufferPercent", _integer(100)),
    "idle_seconds": ("idleSeconds", _integer(2**31)),
}
