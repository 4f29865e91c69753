"""Writes that can be delayed are rarer while the apiserver is slow, and always few."""

import itertools
from typing import Any

import pytest
from dijob.api.model import Metadata
from dijob.api.status import Status
from dijob.controller.cache.children import Children
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.memory import JobMemory
from dijob.controller.reconcile import Reconciler
from dijob.controller.write.actor import Actor
from dijob.controller.write.status_writer import INTERVAL_SECONDS
from dijob.core import pace
from dijob.core.actions import RemindPod
from dijob.core.observed.views import Throttling
from dijob.core.options import Options
from dijob.core.pace import Budget, Latency
from dijob.core.plan import Plan, make_plan
from dijob.core.report.summary import Pressure
from fakes.fake_api import FakeApi
from samples.builders import NOW, Body, gives, job, job_body, later, listed, observed, pod_body


@pytest.mark.parametrize(
    ("latency", "seconds"),
    [(0.0, 8.0), (0.01, 8.0), (0.2, 8.0), (0.5, 15.0), (1.0, 30.0), (9.0, 60.0)],
    ids=["nothing known", "at rest", "a burst", "busy", "slow", "hardly alive"],
)
def test_a_slow_apiserver_delays_writes_that_are_not_urgent(latency: float, seconds: float) -> None:
    assert pace.write_interval(8.0, latency) == seconds


def test_latency_is_smoothed_and_decays() -> None:
    latency = Latency().after(1.0, 0.0)
    assert latency.now(0.0) == pytest.approx(0.125)
    for second in range(40):
        latency = latency.after(1.0, float(second))
    assert 0.8 < latency.now(39.0) < 1.0
    assert latency.now(39.0 + pace.HALF_LIFE_SECONDS) == pytest.approx(latency.now(39.0) / 2)
    assert latency.now(1000.0) < 1e-6


def test_a_start_of_400_pods_sends_at_most_a_tenth_as_many_reminders() -> None:
    """The limit also holds after an idle day."""
    budget, at, reminded = Budget(at=0.0), 86400.0, 0
    for _ in range(400):
        budget = budget.earned(1, at)
        at += 0.05
        while budget.now(at):
            budget, reminded = budget.spent(at), reminded + 1
    assert 40 <= reminded <= 40 + pace.SAVED + 1
    assert budget.now(at) == 0
    assert budget.now(at + 60) == 1


def deaf(seconds: float, ranks: int = 1, **fields: Any) -> tuple[Plan, list[str]]:
    """Return the plan of a job in which the gates of some ranks do not see the list that was
    published at second 0.
    """
    told = {(f"uid-{rank}", 1): NOW for rank in range(ranks)}
    pods = (listed(rank, gated=rank < ranks, ready=rank >= ranks) for rank in range(3))
    seen = observed(*pods, **{"services": frozenset({"job"}), "list_seen": told, **fields})
    owner = job(status={"listNumber": 1, "startTime": NOW.isoformat()})
    decided = make_plan(owner, seen, later(seconds))
    return decided, [action.name for action in decided.actions if isinstance(action, RemindPod)]


def test_each_reminder_of_one_list_waits_twice_as_long_as_the_last() -> None:
    reminded, last = [], dict[tuple[str, int], Any]()
    for second in range(130):
        if deaf(second, reminded=last)[1]:
            reminded.append(second)
            last = {("uid-0", 1): later(second)}
    assert reminded == [4, 12, 28, 60, 124]


def test_a_slow_apiserver_gets_fewer_reminders() -> None:
    slow = Throttling(latency=0.5)
    assert deaf(14, throttling=slow)[1] == []
    assert deaf(15, throttling=slow)[1] == ["job-0"]


@pytest.mark.parametrize("left", [0, 1, 2, 9])
def test_the_number_of_reminders_is_limited_by_the_budget(left: int) -> None:
    decided, names = deaf(9, ranks=3, throttling=Throttling(reminders=left))
    assert len(names) == min(left, 3)
    if not left:
        assert decided.requeue_after >= 1  # no busy loop until the budget allows it


def stored(phase: str, replicas: int) -> Status:
    return Status.model_validate({"phase": phase, "replicas": replicas})


class Slow(FakeApi):
    async def patch(self, path: str, body: Body, **_: Any) -> Body:
        self.calls.append(("PATCH", path, body))
        return job_body(
            status={
                "phase": "Pending",
                **{k: v for k, v in body["status"].items() if v is not None},
            }
        )


async def written(
    monkeypatch: pytest.MonkeyPatch, latency: float, statuses: list[Status]
) -> list[float]:
    """Return when intermediate statuses are written if one is planned each second."""
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    api = Slow()
    for _ in range(50):
        api.throttle.wrote(200, latency)
    reconciler = Reconciler(api.api(), Children.of(()), Options())
    meta, old, found = Metadata.model_validate(job_body()["metadata"]), stored("Pending", 0), []
    for second, status in enumerate(statuses):
        clock[0] = 1000.0 + second
        before = len(api.calls)
        await reconciler._status.write(meta, old, Plan(status), reconciler._memories.of(meta.uid))
        if len(api.calls) > before:
            found.append(float(second))
            old = status
    return found


async def test_a_slow_apiserver_gets_fewer_intermediate_statuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [stored("Pending", count) for count in range(1, 31)]
    quick = await written(monkeypatch, 0.01, steps)
    assert quick == [
        float(second) for second in range(0, 30, int(INTERVAL_SECONDS[Pressure.RARELY]))
    ]
    slow = await written(monkeypatch, 0.5, steps)
    assert slow[0] == 0.0
    assert 1 <= len(slow) <= 3
    assert all(later - sooner >= 8 for sooner, later in itertools.pairwise(slow))


async def test_intermediate_statuses_of_many_jobs_share_a_budget() -> None:
    """One per ten other writes, and one that was saved before. Delayed ones follow later."""
    api = Slow()
    for _ in range(20):
        api.throttle.wrote(200, 2.0)
    reconciler = Reconciler(api.api(), Children.of(()), Options())
    meta = Metadata.model_validate(job_body()["metadata"])
    for number in range(30):
        own = meta.model_copy(update={"uid": f"uid-{number}"})
        memory = reconciler._memories.of(own.uid)
        await reconciler._status.write(
            own, stored("Pending", 0), Plan(stored("Pending", 1)), memory
        )
    assert len(api.calls) == 3


async def test_published_lists_earn_reminders_for_all_jobs() -> None:
    api, children = FakeApi(), Children.of(())
    for rank in range(20):
        children.pods.show(pod_body(rank, job(replicas=20)))
    actor = Actor(api.api(), children, LauncherDelivery(Options()))
    lists = tuple(gives(rank, 1, "10.0.0.1") for rank in range(20))
    reminders = tuple(RemindPod(f"job-{rank}", f"uid-{rank}", 1, "now") for rank in range(20))
    await actor.carry_out(job(), lists, JobMemory())
    api.calls.clear()
    for _ in range(2):
        await actor.carry_out(job(), reminders, JobMemory())
    assert len(api.calls) == 3


async def test_urgent_statuses_are_never_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = [
        Status.model_validate({"phase": "Pending", "restarts": count}) for count in range(1, 6)
    ]
    assert await written(monkeypatch, 2.0, failed) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_429_counts_as_a_slow_write() -> None:
    api = FakeApi()
    for _ in range(30):
        api.throttle.wrote(429, 0.001)
    assert api.throttle.latency > 1
