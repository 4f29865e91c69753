"""The data of the benchmark: the shape of a run, and its measured cost."""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Shape:
    """A number of jobs, and the number of ranks of each."""

    jobs: int
    ranks: int

    @staticmethod
    def parse(text: str) -> "Shape":
        """Return the shape for a text such as 100x4: 100 jobs of 4 ranks."""
        count, _, ranks = text.partition("x")
        return Shape(int(count), int(ranks))

    def __str__(self) -> str:
        return f"{self.jobs}x{self.ranks}"

    @property
    def pods(self) -> int:
        return self.jobs * self.ranks


# The shape that is measured at rest, and with restarts of the operator.
CROWD = Shape(1000, 4)


@dataclass(frozen=True)
class Starts:
    """The times at which jobs were created and at which they ran, by name (seconds of one monotonic
    clock). For changes to running jobs: when the change began, and when the job had recovered.
    """

    created: dict[str, float] = field(default_factory=dict)
    ran: dict[str, float] = field(default_factory=dict)
    # The pods of each job that run. A watch may deliver a pod more than once, so it is a set.
    _running: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def creates(self, job: str) -> None:
        """Record that the job, or the first of its pods, is created now."""
        # Only the first call counts: for floors and JobSet it is called once per pod.
        self.created.setdefault(job, time.monotonic())

    def runs(self, job: str) -> None:
        """Record that the job runs now, unless that is already recorded."""
        self.ran.setdefault(job, time.monotonic())

    def pod_runs(self, job: str, pod: str, ranks: int) -> None:
        """Record that a pod of the job runs. The job runs with the last of its `ranks` pods."""
        self._running[job].add(pod)
        if len(self._running[job]) == ranks:
            self.runs(job)

    @property
    def seconds(self) -> float:
        """Return the time from the first creation until the last job ran."""
        return max(self.ran.values()) - min(self.created.values())

    def percentile(self, share: float) -> float:
        """Return a percentile of the seconds from a job's creation until it was running."""
        took = sorted(self.ran[job] - self.created[job] for job in self.ran)
        # Nearest rank, without interpolation, so that the figure was really measured.
        return took[min(int(share * len(took)), len(took) - 1)]


@dataclass(frozen=True)
class Result:
    """The cost of one run of one entrant.

    `seconds` is the time until all jobs ran; `p50` and `p99` are per job. `parts` and `memory` are
    CPU seconds and MB of each part of the control plane, including kwok. `own` and `peak` are the
    same for the entrant itself. `size` is that of a running pod in bytes, and `writes` counts the
    entrant's writes by verb and resource.
    """

    seconds: float
    p50: float
    p99: float
    parts: dict[str, float]
    memory: dict[str, float] = field(default_factory=dict)
    own: float = 0.0
    peak: float = 0.0
    size: int = 0
    writes: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(starts: Starts, parts: Mapping[str, float], **more: Any) -> "Result":
        """Return the result of a run, with the figures rounded."""
        return Result(
            seconds=round(starts.seconds, 3),
            p50=round(starts.percentile(0.5), 3),
            p99=round(starts.percentile(0.99), 3),
            parts={name: round(seconds, 2) for name, seconds in parts.items()},
            **more,
        )

    @property
    def plane(self) -> float:
        """Return the CPU seconds of the whole control plane."""
        return sum(self.parts.values())

    @property
    def written(self) -> int:
        """Return the number of all writes of the entrant."""
        return sum(self.writes.values())


@dataclass(frozen=True)
class Change:
    """A change to running jobs: the number of affected jobs, and of pods that are new after it."""

    shape: Shape
    words: str
    jobs: int
    pods: int
    result: Result


@dataclass(frozen=True)
class Rest:
    """A period at rest, in seconds, with the operator's writes and requests during it."""

    seconds: float
    writes: int
    requests: int
