"""What is raced, and what one run of an entrant has cost."""

from collections import Counter
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
class Result:
    """One run of one entrant: seconds until all run, CPU seconds of the control plane (kwok's with
    it) and of the entrant itself, bytes of a pod that runs, the entrant's writes by kind.
    """

    seconds: float
    plane: float
    own: float = 0.0
    peak: float = 0.0
    size: int = 0
    writes: Counter[str] = field(default_factory=Counter)

    def row(self, shape: Shape, name: str) -> str:
        own = f"{1000 * self.own / shape.pods:.1f} ms" if self.own else "-"
        writes = f"{self.writes.total() / shape.jobs:.1f}" if self.writes else "-"
        return (
            f"| {shape} | {name} | {self.seconds:.2f} s | {self.plane:.1f} s |"
            f" {self.size / 1000:.1f} KB | {writes} | {own} | {self.peak:.0f} MB |"
        )


HEAD = (
    "| jobs x ranks | entrant | all run after | control plane's CPU | a pod | writes/job |"
    " own CPU/pod | peak RSS |\n|---|---|---|---|---|---|---|---|"
)
