"""What is raced, and what one run of an entrant has cost."""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class Starts:
    """When jobs were created and when they ran, by name (seconds of one clock)."""

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
    """One run of one entrant: when its jobs ran, CPU seconds of each part of the control plane
    (kwok is one) and of the entrant itself, bytes of a pod that runs, the entrant's writes by kind.
    """

    starts: Starts
    parts: Counter[str]
    own: float = 0.0
    peak: float = 0.0
    size: int = 0
    writes: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        return self.starts.seconds

    @property
    def plane(self) -> float:
        """CPU seconds of the whole control plane."""
        return self.parts.total()

    def row(self, shape: Shape, name: str) -> str:
        own = f"{1000 * self.own / shape.pods:.1f} ms" if self.own else "-"
        writes = f"{self.writes.total() / shape.jobs:.1f}" if self.writes else "-"
        return (
            f"| {shape} | {name} | {self.seconds:.2f} s | {self.starts.percentile(0.5):.2f},"
            f" {self.starts.percentile(0.99):.2f} s | {self.plane:.1f} s |"
            f" {self.size / 1000:.1f} KB | {writes} | {own} | {self.peak:.0f} MB |"
        )


HEAD = (
    "| jobs x ranks | entrant | all run after | a job, p50, p99 | control plane's CPU | a pod |"
    " writes/job | own CPU/pod | peak RSS |\n|---|---|---|---|---|---|---|---|---|"
)


def cpu_table(tables: Mapping[Shape, Mapping[str, Result]]) -> str:
    """Where the control plane's CPU seconds went."""
    results = [result for by_name in tables.values() for result in by_name.values()]
    names = sorted({name for result in results for name in result.parts})
    lines = [
        "| jobs x ranks | entrant | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for shape, by_name in tables.items():
        for entrant, result in by_name.items():
            used = " | ".join(f"{result.parts[name]:.1f} s" for name in names)
            lines.append(f"| {shape} | {entrant} | {used} |")
    return "\n".join(lines)


def writes_table(tables: Mapping[Shape, Mapping[str, Result]]) -> str:
    """What an entrant's own user wrote for a job, by verb and resource."""
    lines = ["| jobs x ranks | entrant | writes per job |", "|---|---|---|"]
    for shape, by_name in tables.items():
        for entrant, result in by_name.items():
            each = (
                f"{what} {count / shape.jobs:.1f}" for what, count in result.writes.most_common()
            )
            lines += [f"| {shape} | {entrant} | {', '.join(each)} |"] if result.writes else []
    return "\n".join(lines)
