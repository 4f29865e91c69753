"""The first event of a process is received by all others: with each queue, in mesh and star, also
if a pod starts late or comes back. `make first-events` makes twenty runs of each, and compares them
with runs without the hold.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import pytest
from jobs import REAL_SECONDS, program
from space import Body, Space, measured

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).parent / "in_pods/first_events.py"
QUEUES = {"nng": "nng", "redis": "redis", "torchrpc": "torchrpc:cpu"}
TOPOLOGIES = ("mesh", "star")
RANKS = 3
RUNS = 20
FEW = 5  # number of runs without the hold, which take long
MODES = ("task", "bare", "listener", "late")
# If an event is lost, a run lasts as long as the processes wait. This is long for runs in which
# nothing may be lost, since a busy machine may be slow.
PATIENCE_SECONDS = {True: 60, False: 15}
# A run lasts as long as that of the pod that starts 30 s late; without the hold, the wait for lost
# events is added.
LONG_SECONDS = 3600
ADDED_SECONDS = 1.0


@dataclass(frozen=True)
class World:
    """A job that runs in_pods/first_events.py."""

    queue: str
    topology: str
    held: bool = True

    @property
    def name(self) -> str:
        return f"{self.queue}-{self.topology}{'' if self.held else '-unheld'}"

    def objects(self, *plan: str) -> list[Body]:
        command = ["python3", "/code/main.py", *plan]
        spec: Body = {"replicas": RANKS, "topology": self.topology, "backoffLimit": 0}
        if self.queue != "nng":
            spec["messageQueue"] = {"type": QUEUES[self.queue]}
        if not self.held:
            spec["connectSeconds"] = 0
        code, made = program(self.name, command, PROGRAM.read_text(), **spec)
        main = made["spec"]["template"]["spec"]["containers"][0]
        patience = {"name": "PATIENCE", "value": str(PATIENCE_SECONDS[self.held])}
        main["env"] = [*main["env"], patience]
        return [code, made]

    def reports(self, space: Space) -> list[Body]:
        """Return the lines of all ranks since their last starts."""
        logs = (space.logs(f"{self.name}-{rank}") for rank in range(RANKS))
        lines = (line for log in logs for line in log.splitlines())
        return [json.loads(line) for line in lines if line.startswith('{"mode"')]


def wrong(reports: Iterable[Body]) -> list[Body]:
    """Return reports of processes that missed an event or the end, or received an event twice."""
    return [one for one in reports if one["missing"] or one["twice"] or not one["finished"]]


def until_all_end(space: Space, worlds: list[World], seconds: float) -> None:
    for world in worlds:
        space.until_true(world.name, "Succeeded", seconds)


@pytest.mark.long
def test_a_first_event_is_received_by_all(space: Space) -> None:
    worlds = [World("nng", "star"), World("redis", "mesh"), World("torchrpc", "mesh")]
    space.apply(*(each for world in worlds for each in world.objects("task:2", "bare:1")))
    until_all_end(space, worlds, REAL_SECONDS)
    for world in worlds:
        found = world.reports(space)
        assert len(found) == 3 * RANKS
        assert not wrong(found), (world.name, found)


@pytest.mark.long
def test_first_events_of_twenty_runs_of_each_kind(space: Space) -> None:
    """Three processes in three pods; with `late`, one starts 30 s after the others."""
    held = [World(*each) for each in product(QUEUES, TOPOLOGIES)]
    unheld = [World(queue, "mesh", held=False) for queue in QUEUES]
    plan = {True: [f"{mode}:{RUNS}" for mode in MODES], False: [f"task:{RUNS}", f"late:{FEW}"]}
    worlds = [*held, *unheld]
    space.apply(*(each for world in worlds for each in world.objects(*plan[world.held])))
    until_all_end(space, worlds, LONG_SECONDS)
    print(ROW.format(*HEAD))
    found = {world: world.reports(space) for world in worlds}
    for world, mode in product(worlds, MODES):
        show(world, mode, [one for one in found[world] if one["mode"] == mode])
    for world in held:
        assert len(found[world]) == RUNS * len(MODES) * RANKS
        assert not wrong(found[world]), world.name
        ends = [one["end"] for one in found[world] if one["mode"] in ("bare", "task")]
        assert median(ends) < ADDED_SECONDS, world.name


HEAD = ["queue", "topology", "kind", "hold", "missed", "twice", "deaf", "wait", "main", "end"]
ROW = "| {:8} | {:8} | {:8} | {:4} | {:>6} | {:>5} | {:>6} | {:>6} | {:>6} | {:>5} |"


def show(world: World, mode: str, reports: list[Body]) -> None:
    """Print a row: lost events of all runs, and medians of seconds."""
    if not reports:
        return
    times = [f"{median(one[name] for one in reports):.2f}" for name in ("hold", "main", "end")]
    print(
        ROW.format(
            world.queue,
            world.topology,
            f"{mode} {len(reports) // RANKS}",
            "yes" if world.held else "no",
            sum(len(one["missing"]) for one in reports),
            sum(len(one["twice"]) for one in reports),
            sum(not one["finished"] for one in reports),
            *times,
        ),
        flush=True,
    )


@pytest.mark.long
def test_first_events_after_the_loss_of_rank_0(space: Space) -> None:
    """A rank that comes back exchanges events with all others, twenty times in each case."""
    worlds = [World(*each) for each in product(QUEUES, TOPOLOGIES)]
    space.apply(*(each for world in worlds for each in world.objects("lost:1")))
    missed: Counter[str] = Counter()
    for number in range(RUNS + 1):
        print(f"after loss {number}: missed so far {dict(missed)}", flush=True)
        for world in worlds:
            space.until_true(world.name, "PeersReady", REAL_SECONDS)
            for one in until_reported(space, world):
                missed[world.name] += len(one["missing"])
                if one["missing"]:
                    print(f"{world.name} after loss {number}: {one}", flush=True)
        gone = {f"{world.name}-0": space.pods(world.name)[0]["metadata"]["uid"] for world in worlds}
        if number == RUNS:
            break
        lists = {world: space.status(world.name)["listNumber"] for world in worlds}
        space.kubectl("delete", "pod", *gone, "--wait=false")
        for world in worlds:
            until_another_list(space, world, lists[world])
    for world in worlds:
        measured(f"missing after {RUNS} losses of rank 0, {world.name}", missed[world.name])
    assert not sum(missed.values())


def until_another_list(space: Space, world: World, number: int) -> None:
    """Wait until there is another peer list after the loss."""

    def problem() -> str:
        status = space.status(world.name)
        return "" if status.get("listNumber", 0) > number else f"list {status.get('listNumber')}"

    space.until(f"{world.name} has another list", problem, REAL_SECONDS)


def until_reported(space: Space, world: World) -> list[Body]:
    """Wait for the line of each rank since its last start."""
    found: list[Body] = []

    def problem() -> str:
        found[:] = world.reports(space)
        return "" if len(found) == RANKS else f"{len(found)} of {RANKS} have said what they heard"

    space.until(f"{world.name} has spoken", problem, REAL_SECONDS)
    return found
