"""How often the progress of jobs is written to their status, and what is written."""

import pytest
from dijob.api.status import parse_time
from dijob.controller.cache.stored_progress import recent_figures
from dijob.controller.write.progress_writer import INTERVAL_SECONDS, MOST_AT_ONCE, ProgressWriter
from dijob.core.observed.progress import JobProgress, ProgressReport
from samples.builders import OWNER, UID, Body, job, job_body
from simulator.connection import Fault
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time


def writer(world: World) -> ProgressWriter:
    return world.operator.reconciler.progress


def report(world: World, owner: str = OWNER, **values: int) -> None:
    writer(world).receive(owner, ProgressReport(**values))


def writes(world: World) -> list[Body]:
    """Return the progress in each status write."""
    found = [call.body["status"] for call in world.writes("PATCH") if call.target.sub == "status"]
    return [status["progress"] for status in found if "progress" in status]


async def later(world: World, seconds: float) -> None:
    """Write what is due after this time."""
    await world.operator_alone(seconds)
    await writer(world).write_due()


async def test_progress_is_written_at_once_and_then_at_most_every_interval() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        before = len(world.line.calls)
        report(world, iteration=1, env_step=8)
        await later(world, 0)
        for step in range(2, 12):
            report(world, iteration=step)
            await later(world, INTERVAL_SECONDS / 10)
        await later(world, 1)
        assert [one["line"] for one in writes(world)] == ["iter 1, step 8", "iter 11, step 8"]
        # A write triggers no other request.
        await world.operator_alone(5)
        assert len(world.line.calls) == before + 2
        assert world.phase == "Running"


async def test_unchanged_progress_costs_no_write_also_after_a_restart_of_the_operator() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        for _ in range(3):
            report(world, iteration=1)
            await later(world, INTERVAL_SECONDS)
        assert len(writes(world)) == 1
        await world.restart()
        await world.settle(5)
        report(world, iteration=1)
        await later(world, INTERVAL_SECONDS)
        assert len(writes(world)) == 1
        report(world, waiting_percent=30)
        await later(world, INTERVAL_SECONDS)
        assert writes(world)[-1]["waitingPercent"] == 30
        assert writes(world)[-1]["line"] == "iter 1"


async def test_the_time_is_that_of_the_last_progress_and_not_of_the_report() -> None:
    """Such as a learner that hangs, and reports that it waits."""
    async with simulated(job_body()) as world:
        await world.running()
        report(world, iteration=1)
        await later(world, 0)
        report(world, waiting_percent=100, idle_seconds=400)
        await later(world, INTERVAL_SECONDS + 1)
        before, after = (parse_time(one["time"]) for one in writes(world))
        assert before is not None
        assert after is not None
        assert (before - after).total_seconds() >= 380
        body = world.cluster.read("dijobs", "job")
        assert recent_figures(body, world.operator.reconciler._clock.now()) == {}


async def test_iterations_that_a_restart_repeats_are_counted_once() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        report(world, iteration=100)
        await later(world, 0)
        world.cluster.remove("pods", "job-0")
        await world.until(lambda: world.cluster.job().status.renewals == 1)
        await world.running()
        for iteration in (80, 90, 85):
            report(world, iteration=iteration)
            await later(world, INTERVAL_SECONDS + 1)
        assert [one.get("repeatedIterations") for one in writes(world)] == [None, 20, 20, 20]


async def test_a_status_write_for_another_reason_contains_the_progress() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        report(world, iteration=5)
        world.cluster.edit(suspend=True)
        await world.until(lambda: world.phase == "Suspended")
        assert [one["iteration"] for one in writes(world)] == [5]
        await later(world, INTERVAL_SECONDS)
        assert len(writes(world)) == 1


async def test_a_change_that_the_watch_has_not_delivered_yet_is_not_hidden() -> None:
    """The response to a write has the user's change. Then the watch would bring nothing new."""
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.watches.held = True
        world.cluster.edit(suspend=True)
        report(world, iteration=5)
        await later(world, 0)
        world.cluster.watches.held = False
        world.cluster.watches.release()
        await world.until(lambda: world.phase == "Suspended", 10)
        assert world.cluster.read("dijobs", "job")["status"]["progress"]["iteration"] == 5


async def test_a_write_that_another_change_has_overtaken_is_tried_again() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.watches.held = True
        world.cluster.patch("dijobs", "job", {"metadata": {"labels": {"a": "b"}}})
        report(world, iteration=5)
        await later(world, 0)
        world.cluster.watches.held = False
        world.cluster.watches.release()
        await later(world, INTERVAL_SECONDS)
        await later(world, INTERVAL_SECONDS)
        assert world.cluster.read("dijobs", "job")["status"]["progress"]["iteration"] == 5
        assert not writer(world).status_part(UID)


@pytest.mark.parametrize("status", [500, 429, 503])
async def test_a_failed_write_is_tried_again_with_the_newest_values(status: int) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        report(world, iteration=1)
        world.line.faults.append(Fault("PATCH", "dijobs", status))
        await later(world, 0)
        report(world, iteration=2)
        await later(world, INTERVAL_SECONDS)
        assert writes(world)[-1]["iteration"] == 2
        assert not writer(world).status_part(UID)


async def test_an_unexpected_error_in_one_job_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        report(world, iteration=1)
        with monkeypatch.context() as broken:
            broken.setattr(ProgressWriter, "_dump", lambda *_: 1 / 0)
            await later(world, 0)
        assert writes(world) == []
        report(world, iteration=2)
        await later(world, 0)
        assert [one["iteration"] for one in writes(world)] == [2]


async def test_all_jobs_together_have_a_bounded_rate() -> None:
    number = 3 * MOST_AT_ONCE
    names = [f"job-{each:02}" for each in range(number)]
    bodies = [job_body(suspend=True) for _ in names]
    for body, name in zip(bodies, names, strict=True):
        body["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    async with simulated(*bodies) as world:
        await world.settle(5)
        for round_ in range(1, 4):
            for name in names:
                report(world, f"ns/{name}/uid-{name}", iteration=round_)
            await later(world, 0)
            assert len(writes(world)) == round_ * MOST_AT_ONCE
        # Each job had its turn before a job had the second one.
        assert {writer(world)._known[f"uid-{name}"].fresh for name in names} == {True, False}


async def test_a_job_that_is_gone_or_unknown_has_no_progress() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        report(world, "ns/other/other-uid", iteration=1)
        report(world, "ns/job/former-uid", iteration=1)
        assert writer(world)._known == {}
        report(world, iteration=1)
        world.cluster.remove("dijobs", "job")
        await world.until(lambda: not writer(world)._known)
        await later(world, 0)
        assert writes(world) == []


async def test_the_newest_progress_is_that_of_the_launchers_or_of_an_earlier_operator() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        meta = job().metadata
        assert writer(world).newest(meta) == JobProgress()
        report(world, iteration=1)
        await later(world, 0)
        first = writer(world).newest(meta)
        assert (first.reported, first.iteration) == (writes(world)[-1]["time"], 1)
        report(world, iteration=2)
        assert writer(world).newest(meta).iteration == 2
        await later(world, INTERVAL_SECONDS)
        await world.restart()
        await world.settle(5)
        again = writer(world).newest(meta)
        assert (again.reported, again.iteration) == (writes(world)[-1]["time"], 2)
