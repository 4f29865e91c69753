"""The results for starts on real nodes as Markdown tables, with their goals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from traces import ADDRESSED, FIRST, OPENED, SEEN, STEPS, Start

GATED, IP, VOLUME = "gate", "channel", "channel, image volume"
NAMES, REAL = "Hostname, image volume", "DI-engine, image volume"
LOSS, VOLUME_LOSS, PLAIN = "loss", "loss, image volume", "plain pods"
# The columns of the table. Plain pods are only used for a comparison in the goals.
TABLE = (GATED, IP, VOLUME, NAMES, REAL, LOSS, VOLUME_LOSS)


@dataclass
class Findings:
    """The starts of each kind, and the CPU seconds that a launcher uses per hour at rest."""

    starts: dict[str, list[Start]] = field(default_factory=dict)
    idle: float = 0.0

    def add(self, kind: str, start: Start) -> None:
        self.starts.setdefault(kind, []).append(start)
        # Each start is printed at once, because a run takes many minutes.
        took = ", ".join(f"{step} {seconds:.2f}" for step, seconds in start.durations().items())
        print(f"# {kind}: {start.seconds:.2f} s: {took}; reminders {start.reminders}", flush=True)

    def table(self) -> str:
        """Return the seconds of each step and of the whole start, as median and worst."""
        kinds = [kind for kind in TABLE if kind in self.starts]
        rows = [
            f"| until | {' | '.join(kinds)} |",
            "|---|" + "---|" * len(kinds),
            *(self._row(step, kinds, _of_step(step)) for step in STEPS),
            self._row("total", kinds, lambda start: start.seconds),
            self._row("the operator's part", kinds, lambda start: start.operators),
            f"| starts, reminders | {' | '.join(map(self._counts, kinds))} |",
        ]
        return "\n".join(rows)

    def goals(self) -> str:
        """Return the table of the goals with the measured figures."""
        rows = (goal.row(self) for goal in GOALS)
        return "\n".join(("| figure | goal | measured | |\n|---|---|---|---|", *rows))

    def figures(self, kind: str, figure: "Figure") -> list[float]:
        """Return a figure of each start of this kind."""
        return [found for each in self.starts[kind] if (found := figure(each)) is not None]

    def _row(self, words: str, kinds: list[str], figure: "Figure") -> str:
        cells = (self.figures(kind, figure) for kind in kinds)
        # The median and the worst case. A mean would hide a single slow start.
        shown = (f"{median(cell):.2f}, {max(cell):.2f}" if cell else "-" for cell in cells)
        return f"| {words} | {' | '.join(shown)} |"

    def _counts(self, kind: str) -> str:
        starts = self.starts[kind]
        return f"{len(starts)}, {sum(start.reminders for start in starts)}"


Figure = Callable[[Start], float | None]


def _of_step(step: str) -> Figure:
    return lambda start: start.durations().get(step)


def _each(starts: list[Start], first: str, last: str) -> Iterator[float]:
    """Yield the seconds between two steps for each pod."""
    for start in starts:
        yield from (pod.between(first, last) for pod in start.pods if first in pod.steps)


def over_plain(first: str) -> Callable[[Findings], float]:
    """Return a figure: how much longer a rank needs from a step to its first line of output than a
    plain pod (difference of medians).
    """
    return lambda found: (
        # Per pod rather than per start, so that there are enough values for a median.
        median(_each(found.starts[GATED], first, FIRST))
        - median(_each(found.starts[PLAIN], first, FIRST))
    )


def of_median(kind: str, figure: Callable[[Start], float]) -> Callable[[Findings], float]:
    return lambda found: median(found.figures(kind, figure))


@dataclass(frozen=True)
class Goal:
    """A figure with its upper bound."""

    words: str
    bound: float
    figure: Callable[[Findings], float]
    unit: str = " s"

    def row(self, found: Findings) -> str:
        now = self.figure(found)
        met = "reached" if now <= self.bound else f"missed by {now - self.bound:.2f}{self.unit}"
        return f"| {self.words} | <= {self.bound:g}{self.unit} | {now:.2f}{self.unit} | {met} |"


def opens_after_address(start: Start) -> float:
    return start.ends[OPENED] - max(pod.steps[ADDRESSED] for pod in start.pods)


def whole(start: Start) -> float:
    return start.seconds


GOALS = (
    Goal("from kubectl apply to the complete mesh, median", 2.5, of_median(VOLUME, whole)),
    Goal("the same with an init container", 2.5, of_median(IP, whole)),
    Goal("from the loss to the complete mesh, median", 3.5, of_median(VOLUME_LOSS, whole)),
    Goal("the same with an init container", 3.5, of_median(LOSS, whole)),
    Goal("operator's part of a start, median", 0.5, of_median(VOLUME, lambda one: one.operators)),
    Goal(
        "Hostname: from the last pod's address until all gates are open, worst case",
        2,
        lambda found: max(found.figures(NAMES, opens_after_address)),
    ),
    Goal(
        "from the gate's exit to the first line, minus the same time for a plain pod",
        0.3,
        over_plain(OPENED),
    ),
    Goal("the part of this time after the kubelet has seen the gate's exit", 0.3, over_plain(SEEN)),
    Goal("a launcher's CPU per hour at rest", 2, lambda found: found.idle),
)
