"""Compares DIJob with its peers on real nodes: python bench/peers.py.

The same program in the same image runs as each entrant's job: four ranks of a torch.distributed
group on the two nodes of the test cluster. The nodes share this machine, so there must be no other
load on it. Each round has a run of each entrant, so that a slow minute does not affect only one
entrant.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from archives import archive
from cluster import Cluster, Options, find, up
from cluster.waiting import NotWithin, until
from compared import by_hand, di_orchestrator, jobset, pytorchjob
from compared.by_hand import Processes
from compared.dijob import DIJOB
from compared.entrant import LOST_NODE, Entrant, Release
from compared.group import Group, Pods
from compared.program import RANKS, dqn
from compared.record import (
    COLLECTOR,
    DQN,
    FIGURES,
    LEARNER,
    LOSS,
    NODE,
    START,
    Connected,
    Results,
    Run,
    complete,
    table,
)
from report import Machine

NAME = "bench-peers"
IMAGES = ("ditask", "launcher", "operator")
RESULTS = Path(__file__).parent / "results/peers.json"
VICTIM = 2
BOUNDS = {START: 300.0, LOSS: 90.0, NODE: 240.0, DQN: 300.0, COLLECTOR: 300.0, LEARNER: 300.0}
# The rank that the DQN loses, and when.
VICTIMS = {COLLECTOR: ("a collector", 3), LEARNER: ("the learner", 0)}
FAULT_SECONDS = 10.0
# The times are those that the ranks print, so the interval does not influence them.
POLL_SECONDS = 0.5
AnyGroup = TypeVar("AnyGroup", bound=Group)
# The peers, each with its release, which is built outside of this repository.
PEERS: tuple[tuple[Entrant, Release], ...] = (
    (jobset.JOBSET, jobset.RELEASE),
    (pytorchjob.PYTORCHJOB, pytorchjob.RELEASE),
    (di_orchestrator.DI_ORCHESTRATOR, di_orchestrator.RELEASE),
)


def entrants(chosen: Sequence[str]) -> list[Entrant]:
    """Return DIJob and the peers whose programs are given, and print how to build the others."""
    found = [DIJOB]
    for entrant, release in PEERS:
        if release.binary is None:
            print(
                f"# {entrant.name} {entrant.version} is left out: {release.variable} is not set."
                f" To build it, {release.build}; then set {release.variable} to that program"
            )
        else:
            found.append(entrant)
    return [each for each in found if not chosen or each.name in chosen]


def measured(name: str, figure: str, group: Group, act: Callable[[], None], old: int = 0) -> Run:
    """Return the time from an action until a group other than `old` is complete."""
    begin = time.time()
    bound = BOUNDS[figure]
    found: list[Connected] = []

    def problem() -> str:
        found[:] = complete(group.lines(), RANKS, old)
        return "" if found else "no complete group"

    act()
    try:
        until(f"{name}: {FIGURES[figure]}", problem, bound, pause=POLL_SECONDS)
    except NotWithin:
        return Run(name, figure, None, bound, note=group.state())
    begun, at = (max(getattr(line, key) for line in found) - begin for key in ("begun", "at"))
    return Run(name, figure, round(at, 2), bound, round(begun, 2))


def number(lines: list[Connected]) -> int:
    """Return the number of the current group."""
    return complete(lines, RANKS)[0].group


def play(name: str, group: Group, results: Results, figures: Sequence[str]) -> None:
    """Measure a start and the loss of a rank of one group."""
    started = measured(name, START, group, group.start)
    if START in figures:
        results.add(started)
    if started.seconds is None or LOSS not in figures:
        return
    group.settled()
    old = number(group.lines())
    results.add(measured(name, LOSS, group, lambda: group.lose(VICTIM), old))


def lose_node(name: str, group: Pods, results: Results) -> None:
    """Measure the loss of a node in a group that has just started."""
    if measured(name, START, group, group.start).seconds is None:
        return
    group.settled()
    old, nodes = number(group.lines()), group.nodes()
    lost = sorted(rank for rank, node in nodes.items() if node == LOST_NODE)
    try:
        run = measured(name, NODE, group, group.lose_node, old)
        told = f"with ranks {', '.join(map(str, lost))}"
        results.add(replace(run, note=f"{told}; {run.note}" if run.note else told))
    finally:
        group.restore_node()


def train(entrant: Entrant, cluster: Cluster, results: Results, figure: str) -> None:
    """Measure the DQN until it reaches its target. With a fault, a rank is lost FAULT_SECONDS after
    the start, or after the first evaluation if that is later.
    """
    bound = BOUNDS[figure]
    with removed(Pods(cluster, entrant, dqn())) as pods:
        begin, note = time.time(), ""
        pods.start()
        if victim := VICTIMS.get(figure):
            role, rank = victim
            until("an evaluation", lambda: "" if evaluated(pods) else "none", bound, pause=1)
            time.sleep(max(0.0, begin + FAULT_SECONDS - time.time()))
            if reached(pods):
                note = "the target was reached before the fault"
            else:
                pods.lose_pod(next(n for n, t in pods.trained().items() if t.rank == rank))
                note = f"{role} lost after {time.time() - begin:.1f} s"
        try:
            until("the target", lambda: "" if reached(pods) else "not yet", bound, pause=1)
        except NotWithin:
            told = "; ".join(filter(None, (note, pods.state())))
            results.add(Run(entrant.name, figure, None, bound, note=told))
        else:
            seconds = round(reached(pods) - begin, 2)
            results.add(Run(entrant.name, figure, seconds, bound, note=note))


def reached(pods: Pods) -> float:
    """Return the time at which the target was reached; 0 if it was not."""
    return max((each.reached or 0.0 for each in pods.trained().values()), default=0.0)


def evaluated(pods: Pods) -> float:
    """Return the time at which a rank had its first evaluation; 0 if none had."""
    return max((each.evaluated or 0.0 for each in pods.trained().values()), default=0.0)


@dataclass(frozen=True)
class Plan:
    """What a round measures: the figures, and how often with each installation."""

    entrants: Sequence[Entrant]
    figures: Sequence[str]
    by_hand: bool
    repeat: int
    json: Path  # written after each run, because a round takes many minutes

    @property
    def connects(self) -> bool:
        return bool({START, LOSS} & set(self.figures))

    def run(self, cluster: Cluster, results: Results) -> None:
        """Run every entrant, each with only its own operator in the cluster."""
        if self.by_hand and self.connects:
            for _ in range(self.repeat):
                with removed(Processes(cluster)) as group:
                    play(by_hand.NAME, group, results, self.figures)
                results.save(self.json)
        for entrant in self.entrants:
            with entrant.install(cluster):
                # The first job after an installation is not counted: a controller may still wait
                # for the lease of an earlier one, although it says that it is ready.
                with removed(Pods(cluster, entrant)) as pods:
                    play(entrant.name, pods, Results(results.machine), ())
                for _ in range(self.repeat):
                    self._run_once(cluster, entrant, results)
                    results.save(self.json)

    def _run_once(self, cluster: Cluster, entrant: Entrant, results: Results) -> None:
        if self.connects:
            with removed(Pods(cluster, entrant)) as pods:
                play(entrant.name, pods, results, self.figures)
        if NODE in self.figures:
            with removed(Pods(cluster, entrant)) as pods:
                lose_node(entrant.name, pods, results)
        for figure in (DQN, COLLECTOR, LEARNER):
            if figure in self.figures:
                train(entrant, cluster, results, figure)


@contextmanager
def removed(group: AnyGroup) -> Iterator[AnyGroup]:
    """Remove a group at the end of the block."""
    try:
        yield group
    finally:
        group.remove()


def warm_up(cluster: Cluster) -> None:
    """Start the program once, so that the first entrant does not read it from the disk alone."""
    with removed(Processes(cluster)) as group:
        play("warm-up", group, Results(Machine.here()), ())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="installations of each (default 5)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each in a round (default 1)")
    known = "; ".join(FIGURES)
    parser.add_argument(
        "--figures", default=";".join(FIGURES), help=f"separated by semicolons, of: {known}"
    )
    parser.add_argument(
        "--entrants", default="", help="names, separated by semicolons (default all)"
    )
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the runs are stored")
    parser.add_argument("--add", action="store_true", help="add to the runs that are stored there")
    parser.add_argument("--name", default=NAME, help="of the cluster; one that is up is used")
    given = parser.parse_args()
    chosen = [name for name in given.entrants.split(";") if name]
    plan = Plan(
        entrants(chosen),
        given.figures.split(";"),
        not chosen or by_hand.NAME in chosen,
        given.repeat,
        given.json,
    )
    before = find(given.name)
    results = Results.read(given.json) if given.add else Results(Machine.here())
    results.versions |= {each.name: each.version for each in plan.entrants}
    archives = tuple(archive(image) for image in IMAGES)
    cluster = up(Options(name=given.name, images=archives))
    # A cluster that was already running is not removed at the end.
    keeping: AbstractContextManager[object] = cluster if before is None else nullcontext()
    with keeping:
        warm_up(cluster)
        for _ in range(given.rounds):
            plan.run(cluster, results)
    print(f"\n{results.machine}\n\n{table(results)}")


if __name__ == "__main__":
    main()
