"""The metrics count each transition of a job once, whichever operator is the leader, and nothing
from the past.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dijob.api.model import Metadata
from dijob.api.status import Renewal, Status, format_time
from dijob.controller import metrics
from dijob.core.facts import Fact
from dijob.core.membership.list_state import SUSPENDED
from dijob.core.report import milestones as milestones_module
from dijob.core.report.milestones import CAUSES, CRASHED, JobEnd, Milestones, find_milestones
from dijob.core.report.summary import apply_facts
from dijob.reasons import Failed, PeersReady, Running, Succeeded
from samples.builders import NOW, job_body, later
from simulator.objects import Target
from simulator.pod_actions import crash
from simulator.simulated import World, simulated

META = Metadata(name="job", creation_timestamp=format_time(NOW))
WAITS = (Fact(Running.Starting), Fact(PeersReady.Starting))
RENEWING = (Fact(Running.Renewing), Fact(PeersReady.Renewing))
RUNS = (Fact(Running.Begun), Fact(PeersReady.AllRanksReady))
PARTLY = (Fact(Running.Begun), Fact(PeersReady.Renewing))


def status(
    *steps: tuple[float, tuple[Fact, ...], Mapping[str, Any]], start: float = 0
) -> Iterator[Status]:
    """Return the statuses of a job that was first seen at `start`, with these facts written after
    this many seconds, and with these fields.
    """
    now = Status(start_time=format_time(later(start)))
    for seconds, facts, fields in steps:
        now = apply_facts(now.model_copy(update=dict(fields)), facts, 1, later(seconds))
        yield now


def loss(seconds: float, reason: str = "PodLost", list_number: int = 1) -> dict[str, Renewal]:
    renewal = Renewal(reason=reason, list_number=list_number, time=format_time(later(seconds)))
    return {"last_renewal": renewal}


def change(
    *steps: tuple[float, tuple[Fact, ...], Mapping[str, Any]], start: float = 0
) -> Milestones:
    """Return the transitions in the last of these writes."""
    *_, old, new = (Status(), *status(*steps, start=start))
    return find_milestones(META, old, new, later(steps[-1][0]))


STARTED: dict[str, tuple[tuple[Any, ...], float | None]] = {
    "from its creation": (((1, WAITS, {}), (9, RUNS, {})), 9),
    "in its first status": (((2, RUNS, {}),), 2),
    "it keeps running": (((1, WAITS, {}), (9, RUNS, {}), (20, RUNS, {"replicas": 3})), None),
    "a loss before it runs": (((1, WAITS, {}), (5, RENEWING, loss(5)), (9, RUNS, {})), 9),
    "again after a loss": (((9, RUNS, {}), (20, RENEWING, loss(20)), (30, RUNS, {})), None),
    "from its resumption": (
        (
            (9, RUNS, {}),
            (20, WAITS, {"suspend_time": format_time(later(20)), **loss(20, SUSPENDED)}),
            (50, WAITS, {"suspend_time": None, "resume_time": format_time(later(50))}),
            (57, RUNS, {}),
        ),
        7,
    ),
}


@pytest.mark.parametrize(("steps", "seconds"), STARTED.values(), ids=STARTED)
def test_a_start_is_from_creation_or_resumption_to_running(
    steps: tuple[Any, ...], seconds: float | None
) -> None:
    assert change(*steps).started == seconds


def test_a_creation_time_in_the_future_counts_as_now() -> None:
    ahead = META.model_copy(update={"creation_timestamp": format_time(later(60))})
    old, new = status((1, WAITS, {}), (9, RUNS, {}))
    assert find_milestones(ahead, old, new, later(9)).started == 0


RECOVERED: dict[str, tuple[tuple[Any, ...], float | None]] = {
    "one rank": (((9, RUNS, {}), (20, PARTLY, loss(20)), (26, RUNS, {})), 6),
    "all ranks": (((9, RUNS, {}), (20, RENEWING, loss(20)), (32, RUNS, {})), 12),
    "two losses, from the first": (
        ((9, RUNS, {}), (20, PARTLY, loss(20)), (25, PARTLY, loss(25)), (32, RUNS, {})),
        12,
    ),
    "the start": (((1, WAITS, {}), (9, RUNS, {})), None),
    "a start with a loss": (((1, WAITS, {}), (5, RENEWING, loss(5)), (9, RUNS, {})), None),
    "a rank that joins, long after a loss": (
        ((9, RUNS, {}), (20, PARTLY, loss(20)), (26, RUNS, {}), (50, PARTLY, {}), (60, RUNS, {})),
        None,
    ),
    "scaled": (((9, RUNS, {}), (20, PARTLY, loss(20, "Scaled")), (26, RUNS, {})), None),
    "it ends meanwhile": (
        (
            (9, RUNS, {}),
            (20, PARTLY, loss(20)),
            (26, (*RUNS, Fact(Succeeded.AllRanksSucceeded)), {}),
        ),
        None,
    ),
}


@pytest.mark.parametrize(("steps", "seconds"), RECOVERED.values(), ids=RECOVERED)
def test_a_recovery_is_from_a_loss_until_all_ranks_are_ready(
    steps: tuple[Any, ...], seconds: float | None
) -> None:
    assert change(*steps).recovered == seconds


RESTARTS: dict[str, tuple[tuple[Any, ...], dict[str, int]]] = {
    "a loss": (((9, RUNS, {}), (20, PARTLY, loss(20))), {"PodLost": 1}),
    "a counted failure": (
        ((9, RUNS, {}), (20, PARTLY, {**loss(20, "PodFailed"), "restarts": 1})),
        {"PodFailed": 1},
    ),
    "one more while it heals": (
        ((20, PARTLY, loss(20)), (22, PARTLY, loss(22, "AddressChanged"))),
        {"AddressChanged": 1},
    ),
    "written again": (((20, PARTLY, loss(20)), (30, PARTLY, {})), {}),
    "two containers restart in their pods": (
        ((9, RUNS, {}), (20, RUNS, {"restarts": 2})),
        {CRASHED: 2},
    ),
    "the last failure restarts no rank": (
        ((9, RUNS, {}), (20, (Fact(Failed.BackoffLimitExceeded),), {"restarts": 1})),
        {},
    ),
    "a suspension": (((9, RUNS, {}), (20, WAITS, loss(20, SUSPENDED))), {}),
}


@pytest.mark.parametrize(("steps", "causes"), RESTARTS.values(), ids=RESTARTS)
def test_a_restart_has_one_cause(steps: tuple[Any, ...], causes: dict[str, int]) -> None:
    assert change(*steps).restarts == causes


def test_an_end_is_counted_once_with_its_reason() -> None:
    failed = (Fact(Failed.DeadlineExceeded),)
    assert change((9, RUNS, {}), (20, failed, {})).finished == JobEnd("Failed", "DeadlineExceeded")
    assert change((20, failed, {}), (30, failed, {"replicas": 0})).finished is None
    well = (Fact(Succeeded.SuccessPolicy),)
    assert change((9, RUNS, {}), (20, well, {})).finished == JobEnd("Succeeded", "SuccessPolicy")


def test_each_reason_of_a_loss_is_a_cause_from_the_start() -> None:
    """Prometheus sees no increase in a series that starts with 1."""
    core = Path(milestones_module.__file__).parents[1]
    text = "\n".join(path.read_text() for path in core.rglob("*.py"))
    reasons = set(re.findall(r"Loss\(\s*AddressesReady\.(\w+)", text))
    assert len(reasons) > 5
    assert {*reasons, CRASHED} == set(CAUSES)
    for cause in CAUSES:
        assert (
            metrics.REGISTRY.get_sample_value("dijob_restarts_total", {"cause": cause}) is not None
        )


class Counts:
    """How much has been counted since the beginning of the test."""

    def __init__(self) -> None:
        self._before = self._all()

    @staticmethod
    def _all() -> dict[str, float]:
        found = {}
        for family in metrics.REGISTRY.collect():
            for sample in family.samples:
                labels = ",".join(value for name, value in sample.labels.items() if name != "le")
                found[f"{sample.name.removeprefix('dijob_')} {labels}".strip()] = sample.value
        return found

    @property
    def new(self) -> dict[str, float]:
        """Return the metrics about jobs that have grown."""
        now = self._all()
        words = ("start_duration", "recovery_duration", "restarts", "jobs_finished")
        return {
            name: value - self._before.get(name, 0.0)
            for name, value in now.items()
            if name.startswith(words)
            and not name.partition(" ")[0].endswith(("_bucket", "_sum", "_created"))
            and value != self._before.get(name, 0.0)
        }


@pytest.fixture
def counts() -> Counts:
    return Counts()


async def lose(world: World) -> None:
    world.cluster.server.remove(Target("pods", "ns", "job-1"))
    await world.until(lambda: world.cluster.job().status.last_renewal is not None)
    await world.settle(5)


@pytest.mark.virtual_time
async def test_a_restarted_operator_counts_nothing_from_the_past(
    counts: Counts,
) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        assert counts.new == {"start_duration_seconds_count": 1}
        await lose(world)
        once = {
            "start_duration_seconds_count": 1,
            "recovery_duration_seconds_count": 1,
            "restarts_total PodLost": 1,
        }
        assert counts.new == once
        for _ in range(2):
            await world.restart()
            await world.settle()
        assert counts.new == once


@pytest.mark.virtual_time
async def test_a_new_operator_completes_a_recovery_that_an_old_one_has_seen(counts: Counts) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.server.remove(Target("pods", "ns", "job-1"))
        await world.until(lambda: world.cluster.job().status.last_renewal is not None)
        await world.restart()
        await world.settle()
        assert counts.new["recovery_duration_seconds_count"] == 1
        assert counts.new["restarts_total PodLost"] == 1


@pytest.mark.virtual_time
async def test_a_rejected_write_is_not_counted(counts: Counts) -> None:
    async with simulated(job_body()) as world:
        await world.until(lambda: len(world.cluster.processes) == 3)
        world.refuse("PATCH", "dijobs", 409, times=3)
        await world.running()
        assert counts.new == {"start_duration_seconds_count": 1}


@pytest.mark.virtual_time
async def test_the_counts_of_a_job_that_is_suspended_resumed_and_crashes(counts: Counts) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.edit(suspend=True)
        await world.until(lambda: world.phase == "Suspended")
        await world.settle(5)
        world.cluster.edit(suspend=False)
        await world.running()
        assert counts.new == {"start_duration_seconds_count": 2}
        crash(world.cluster.pod("job-0"), main=True)
        world.cluster.report(world.cluster.pod("job-0"))
        await world.settle()
        assert counts.new["restarts_total Crashed"] == 1
        assert "recovery_duration_seconds_count" not in counts.new
