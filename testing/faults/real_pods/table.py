"""The table of results: each kind of fault and each check, with its bound and verdict."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from faults.real_pods.healing import Healed
from faults.real_pods.kinds import KINDS, Kind, Level

HEAD = ("fault or check", "count", "measured", "bound", "verdict")
# The bounds for the median and the maximum, while other faults happen, on two busy cores. A fault
# of a node restarts most programs, including DI-engine and torch. A standby takes over within 8 s
# (docs/operations.md), unless another fault hits it too.
HEAL_SECONDS = {Level.POD: (60, 120), Level.NODE: (90, 150), Level.OPERATOR: (8, 30)}
# The bounds if Kubernetes has to give up on a node. Kubernetes takes 52 s just to give up.
GIVEN_UP_SECONDS = (150, 200)
BESIDE = "any other fault while Kubernetes gives up on a node"
# The bounds if no standby can take over: another operator has to start, on a node that another
# fault may hit.
ALONE_SECONDS = (30, 60)
ALONE = "the leader, while no standby is Ready"
# A run of this length draws every kind of fault; a shorter one may not.
FULL_MINUTES = 10.0


@dataclass
class Checked:
    """The number of observations of one check, and the violations."""

    looked: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class Happened:
    """The results of one kind of fault.

    `done` counts how often the fault hit its target. `missed` counts how often there was no target.
    `seconds` has the recovery times, except those in `beside` and `alone`. `beside` has the
    recovery times in waves in which another fault made Kubernetes give up on a node. For the other
    waves, `alone` has the recovery times after faults that hit the leader while no standby was
    Ready. `never` counts targets that never recovered.
    """

    done: int = 0
    missed: int = 0
    seconds: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    never: int = 0

    def add(self, other: "Happened") -> None:
        """Add the results of another run."""
        self.done += other.done
        self.missed += other.missed
        self.seconds += other.seconds
        self.beside += other.beside
        self.alone += other.alone
        self.never += other.never


@dataclass
class Result:
    """The results of one run."""

    seed: int
    minutes: float
    waves: int = 0
    kinds: dict[str, Happened] = field(default_factory=dict)
    checks: dict[str, Checked] = field(default_factory=dict)

    def heard(self, healed: Iterable[Healed]) -> None:
        """Add the faults of one wave with their recovery times."""
        wave = tuple(healed)
        given_up = any(one.done.fault.is_a.given_up and not one.done.missed for one in wave)
        for one in wave:
            kind = self.kinds.setdefault(one.done.fault.kind, Happened())
            if one.done.missed:
                kind.missed += 1
                continue
            kind.done += 1
            if one.seconds is None:
                kind.never += 1
            # The recovery then waits for Kubernetes, so its time says nothing about this fault.
            elif given_up and not one.done.fault.is_a.given_up:
                kind.beside.append(one.seconds)
            elif one.done.alone:
                kind.alone.append(one.seconds)
            else:
                kind.seconds.append(one.seconds)

    def checked(self, name: str, wrong: Iterable[str], looked: int = 1) -> None:
        """Add the observations and violations of a check."""
        check = self.checks.setdefault(name, Checked())
        check.looked += looked
        check.wrong += wrong

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(body: dict[str, Any]) -> "Result":
        kinds = {name: Happened(**one) for name, one in body["kinds"].items()}
        checks = {name: Checked(**one) for name, one in body["checks"].items()}
        return Result(**{**body, "kinds": kinds, "checks": checks})


@dataclass(frozen=True)
class Row:
    """One row of the table; `good` is the verdict."""

    words: str
    count: str
    measured: str
    bound: str
    good: bool

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = "reached" if self.good else "MISSED"
        return self.words, self.count, self.measured, self.bound, verdict


def joined(runs: Iterable[Result]) -> Result:
    """Return the sum of several runs."""
    runs = tuple(runs)
    all_ = Result(0, sum(run.minutes for run in runs), sum(run.waves for run in runs))
    for run in runs:
        for name, one in run.kinds.items():
            all_.kinds.setdefault(name, Happened()).add(one)
        for name, check in run.checks.items():
            all_.checked(name, check.wrong, check.looked)
    return all_


def rows(result: Result) -> Iterator[Row]:
    """Yield all rows. A kind of fault that was not drawn in a short run has no row."""
    for kind in KINDS.values():
        if happened := result.kinds.get(kind.name):
            yield _of_kind(kind, happened)
    if beside := [seconds for one in result.kinds.values() for seconds in one.beside]:
        yield _timed(BESIDE, str(len(beside)), beside, GIVEN_UP_SECONDS)
    if alone := [seconds for one in result.kinds.values() for seconds in one.alone]:
        yield _timed(ALONE, str(len(alone)), alone, ALONE_SECONDS)
    # If a kind of fault never found a target in a whole run, it was not tested.
    if result.minutes >= FULL_MINUTES:
        absent = [name for name in KINDS if not result.kinds.get(name, Happened()).done]
        yield Row(
            "faults that never hit a target",
            str(len(KINDS)),
            _few(absent),
            "0",
            not absent,
        )
    for name, check in result.checks.items():
        yield Row(name, str(check.looked), f"{len(check.wrong)} wrong", "0", not check.wrong)


def _few(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "0"


def _of_kind(kind: Kind, happened: Happened) -> Row:
    count = f"{happened.done}" + (f" ({happened.missed} missed)" if happened.missed else "")
    bounds = GIVEN_UP_SECONDS if kind.given_up else HEAL_SECONDS[kind.level]
    row = _timed(kind.name, count, happened.seconds, bounds)
    if not happened.never:
        return row
    return replace(row, measured=f"{row.measured}, never recovered: {happened.never}", good=False)


def _timed(words: str, count: str, seconds: list[float], bounds: tuple[int, int]) -> Row:
    shown = f"median <= {bounds[0]} s, max <= {bounds[1]} s"
    # The list is empty if the fault never hit a target, if its targets never recovered, or if all
    # its recovery times are in the lists `beside` and `alone`.
    if not seconds:
        return Row(words, count, "-", shown, good=True)
    middle, most = median(seconds), max(seconds)
    good = middle <= bounds[0] and most <= bounds[1]
    return Row(words, count, f"median {middle:.1f} s, max {most:.1f} s", shown, good)


def markdown(found: Iterable[Row]) -> str:
    """Return the table as Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row.cells)} |" for row in found]
    return "\n".join(lines)
