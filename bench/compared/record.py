"""The figures of the comparison: what the ranks print, the medians, and the table."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from report import Machine
from traces import epoch

START, LOSS, NODE = "start", "loss of a rank", "loss of a node"
DQN, COLLECTOR, LEARNER = "DQN", "DQN, loss of a collector", "DQN, loss of the learner"
FIGURES = {
    START: "apply → all connected",
    LOSS: "loss of one rank → all connected again",
    NODE: "loss of a node → all connected again",
    DQN: "apply → DQN has reached its target",
    COLLECTOR: "the same with the loss of a collector",
    LEARNER: "the same with the loss of the learner",
}
BASE = "DIJob"
_LINE = re.compile(
    r"^connected group=(\d+) rank=(\d+) world=(\d+) begun=([\d.]+) at=([\d.]+)$", re.M
)


# Each line begins with the kubelet's timestamp.
_ROLE = re.compile(r"^\S+ role (\w*) rank (\d+)$", re.M)
_EVALUATED = re.compile(r"^(\S+) .*Episode Return\(", re.M)
_REACHED = re.compile(r"^(\S+) .*: the training is complete", re.M)


@dataclass(frozen=True)
class Connected:
    """What a rank prints when it is connected with all others. Times are epoch seconds."""

    group: int
    rank: int
    world: int
    begun: float  # the container's first command; the import of torch follows
    at: float


def parse(log: str) -> Connected | None:
    """Return the last of these lines in a log, parsed."""
    if not (found := _LINE.findall(log)):
        return None
    group, rank, world, begun, at = found[-1]
    return Connected(int(group), int(rank), int(world), float(begun), float(at))


@dataclass(frozen=True)
class Trained:
    """What a rank of the DQN has printed, with times in epoch seconds."""

    role: str
    rank: int
    evaluated: float | None  # its first evaluation
    reached: float | None  # the target


def parse_dqn(log: str) -> Trained | None:
    """Parse the log of a rank of the DQN. Its lines begin with timestamps."""
    if not (begun := _ROLE.search(log)):
        return None
    first, target = _EVALUATED.search(log), _REACHED.search(log)
    evaluated, reached = (epoch(each[1]) if each else None for each in (first, target))
    return Trained(begun[1], int(begun[2]), evaluated, reached)


def complete(lines: Iterable[Connected], world: int, not_in: int = 0) -> list[Connected]:
    """Return the lines of a complete group of this size other than `not_in`; [] if none exists."""
    groups: dict[int, dict[int, Connected]] = {}
    for line in lines:
        if line.world == world and line.group != not_in:
            groups.setdefault(line.group, {})[line.rank] = line
    whole = [ranks for ranks in groups.values() if set(ranks) == set(range(world))]
    newest = max(whole, key=lambda ranks: max(line.at for line in ranks.values()), default={})
    return [newest[rank] for rank in sorted(newest)]


@dataclass(frozen=True)
class Run:
    """One measurement. `seconds` is None if it did not happen within `bound` seconds."""

    entrant: str
    figure: str
    seconds: float | None
    bound: float
    # Until the last rank's container had begun: the entrant's part, without the import of torch.
    begun: float | None = None
    note: str = ""


@dataclass
class Results:
    """The runs of all rounds, with the machine and the versions of the entrants."""

    machine: Machine
    versions: dict[str, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def add(self, run: Run) -> None:
        self.runs.append(run)
        # Each run is printed at once, because a round takes minutes.
        print(f"# {run.entrant}, {run.figure}: {shown(run)}", flush=True)

    def of(self, entrant: str, figure: str) -> list[Run]:
        return [run for run in self.runs if (run.entrant, run.figure) == (entrant, figure)]

    @property
    def entrants(self) -> list[str]:
        """Return the names of the entrants in the order of their first run."""
        return list(dict.fromkeys(run.entrant for run in self.runs))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def read(path: Path) -> "Results":
        said: Mapping[str, Any] = json.loads(path.read_text())
        runs = [Run(**run) for run in said["runs"]]
        return Results(Machine(**said["machine"]), dict(said["versions"]), runs)


def shown(run: Run) -> str:
    """Return a description of a run."""
    if run.seconds is None:
        text = f"not within {run.bound:.0f} s"
    else:
        text = f"{run.seconds:.2f} s"
        text += f" (last container begun after {run.begun:.2f} s)" if run.begun is not None else ""
    return f"{text}; {run.note}" if run.note else text


def middle(runs: Iterable[Run]) -> float | None:
    """Return the median seconds. A run that did not end counts as longer than any other; the median
    is None if it is such a run.
    """
    found = sorted(float("inf") if run.seconds is None else run.seconds for run in runs)
    value = median(found) if found else float("inf")
    return None if value == float("inf") else value


HEAD = ("figure", "entrant", "median", "range", "last container began", "ratio to DIJob", "runs")


def table(results: Results) -> str:
    """Return the Markdown table: a row for each figure of each entrant."""
    rows = [HEAD, ("---",) * len(HEAD)]
    for figure in FIGURES:
        found = [entrant for entrant in results.entrants if results.of(entrant, figure)]
        rows += [_row(results, entrant, figure) for entrant in found]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(results: Results, entrant: str, figure: str) -> tuple[str, ...]:
    runs = results.of(entrant, figure)
    ended = [run.seconds for run in runs if run.seconds is not None]
    begun = [run.begun for run in runs if run.begun is not None]
    value, base = middle(runs), middle(results.of(BASE, figure))
    never = f"not within {runs[0].bound:.0f} s"
    lost = len(runs) - len(ended)
    return (
        FIGURES[figure],
        entrant,
        never if value is None else f"**{value:.1f} s**",
        f"{min(ended):.1f} to {max(ended):.1f} s" if ended else "-",
        f"{median(begun):.1f} s" if begun else "-",
        f"{value / base:.2f}" if value and base and entrant != BASE else "-",
        f"{len(runs)} ({lost} {never})" if lost else str(len(runs)),
    )
