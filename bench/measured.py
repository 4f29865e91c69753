"""What is raced, and what one run of an entrant has cost."""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Shape:
    """So many jobs of so many ranks."""

    jobs: int
    ranks: int

    @staticmethod
    def parse(text: str) -> "Shape":
        """100x4: 100 jobs of 4 ranks."""
        count, _, ranks = text.partition("x")
        return Shape(int(count), int(ranks))

    def __str__(self) -> str:
        return f"{self.jobs}x{self.ranks}"

    @property
    def pods(self) -> int:
        return self.jobs * self.ranks


# The jobs in whose midst nothing happens, and the operator is killed
CROWD = Shape(1000, 4)


@dataclass(frozen=True)
class Starts:
    """When jobs were created and when they ran, by name (seconds of one clock). For jobs that run
    already: when something befell them, and when they were whole again.
    """

    created: dict[str, float] = field(default_factory=dict)
    ran: dict[str, float] = field(default_factory=dict)
    _running: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def creates(self, job: str) -> None:
        """The job, or the first of its pods, is created now."""
        self.created.setdefault(job, time.monotonic())

    def runs(self, job: str) -> None:
        """The job runs, from now on unless it did before."""
        self.ran.setdefault(job, time.monotonic())

    def pod_runs(self, job: str, pod: str, ranks: int) -> None:
        """One of the job's pods runs; it runs itself with the last of so many."""
        self._running[job].add(pod)
        if len(self._running[job]) == ranks:
            self.runs(job)

    @property
    def seconds(self) -> float:
        """From the first create until the last job ran."""
        return max(self.ran.values()) - min(self.created.values())

    def percentile(self, share: float) -> float:
        """So many seconds, or fewer, passed for this share of the jobs from create to running."""
        took = sorted(self.ran[job] - self.created[job] for job in self.ran)
        return took[min(int(share * len(took)), len(took) - 1)]


@dataclass(frozen=True)
class Result:
    """One run of one entrant: seconds until all jobs ran, and those of a job (p50 and p99); CPU
    seconds and MB of each part of the control plane (kwok is one) and of the entrant itself; bytes
    of a pod that runs; the entrant's writes by kind.
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
        """The result of a run that took so long."""
        return Result(
            seconds=round(starts.seconds, 3),
            p50=round(starts.percentile(0.5), 3),
            p99=round(starts.percentile(0.99), 3),
            parts={name: round(seconds, 2) for name, seconds in parts.items()},
            **more,
        )

    @property
    def plane(self) -> float:
        """CPU seconds of the whole control plane."""
        return sum(self.parts.values())

    @property
    def written(self) -> int:
        """All of the entrant's writes."""
        return sum(self.writes.values())


@dataclass(frozen=True)
class Change:
    """What befell jobs that ran already: so many jobs, and so many pods that are new after it."""

    shape: Shape
    words: str
    jobs: int
    pods: int
    result: Result


@dataclass(frozen=True)
class Rest:
    """Seconds in which nothing happened, and what the operator wrote and asked meanwhile."""

    seconds: float
    writes: int
    requests: int
