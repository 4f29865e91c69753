"""The shell on a simulated cluster whose watches are late or silent: what is known, and healed,
without them.
"""

import pytest
from dijob import names
from unit.builders import Body, job_body
from unit.objects import Target
from unit.simulated import POD_1, World, simulated

pytestmark = pytest.mark.virtual_time


def lose(world: World, plural: str, name: str) -> None:
    """An object goes, and the watch breaks before it says so; it goes on with what happens
    afterwards.
    """
    world.cluster.watches.held = True
    world.cluster.server.remove(Target(plural, "ns", name))
    world.cluster.watches.end("reset")
    world.cluster.server.compact()
    world.cluster.watches.held = False


async def test_an_older_view_never_replaces_a_newer_one() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        for back in (6, 5, 4):
            world.cluster.watches.repeat(back)
            await world.settle(5)
            world.operator.check_known()


async def test_a_pod_that_is_not_there_any_more_is_made_again_although_no_watch_says_so() -> None:
    async with simulated(job_body(), starts=False) as world:
        world.operator.start()
        await world.runs(0.1)
        first = world.cluster.read("pods", "job-1")["metadata"]["uid"]
        world.refuse("PATCH", "pods", 503, times=3)
        await world.until(lambda: not world.line.faults)
        world.cluster.watches.held = True
        world.cluster.server.remove(POD_1)
        await world.until(lambda: POD_1 in world.cluster.server.objects, 10)
        assert world.cluster.read("pods", "job-1")["metadata"]["uid"] != first


async def test_what_was_just_made_is_known_before_a_watch_says_so() -> None:
    async with simulated() as world:
        await world.runs(1)
        world.cluster.apply(job_body())
        world.cluster.watches.held = True
        await world.operator_alone(10)
        assert len(world.writes("POST", "pods")) == 3


async def test_what_was_just_deleted_is_known_before_a_watch_says_so() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.edit(suspend=True)
        world.cluster.watches.held = True
        await world.operator_alone(10)
        assert len(world.writes("DELETE", "pods")) == 3


async def test_what_vanished_in_a_gap_of_the_watch_is_healed() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        lose(world, "pods", "job-1")
        await world.until(lambda: POD_1 in world.cluster.server.objects, 20)
        await world.settle()
        world.operator.check_known()


async def test_a_watch_that_says_nothing_any_more_is_made_anew() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.watches.silence()
        world.cluster.server.remove(POD_1)
        await world.until(lambda: POD_1 in world.cluster.server.objects, 90)


def called(name: str) -> Body:
    """Another job."""
    body = job_body()
    body["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
    return body


async def test_who_takes_over_sees_at_once_what_silent_watches_have_not_shown() -> None:
    """The node of the apiserver that both operators asked may have gone with the one that acted."""
    async with simulated(job_body(), called("other")) as world:
        await world.running()
        world.cluster.watches.silence()
        world.cluster.server.remove(POD_1)
        world.cluster.edit(replicas=4)
        world.cluster.remove(names.PLURAL, "other")
        world.cluster.apply(called("new"))
        await world.runs(10)
        assert ("ns", "other") in world.operator.reconciler.jobs.uids().values()
        assert not world.cluster.names_of("pods") & {"job-1", "job-3", "new-0"}
        await world.operator.takes_over()
        made = {"job-1", "job-3", "new-0", "new-1"}
        await world.until(lambda: world.cluster.names_of("pods") >= made, 2)
        assert ("ns", "other") not in world.operator.reconciler.jobs.uids().values()
        await world.settle()
        world.operator.check_known()


async def test_a_deletion_that_no_watch_has_shown_brings_no_pods_back() -> None:
    """The audit finds it within a minute; until then the pods that the garbage collector takes are
    not made again.
    """
    async with simulated(job_body()) as world:
        await world.running()
        await world.runs(15)
        lose(world, names.PLURAL, "job")
        before = len(world.writes("POST", "pods"))
        await world.runs(50)
        assert len(world.writes("POST", "pods")) == before
        await world.runs(30)
        world.operator.check_known()


async def test_no_pods_come_for_a_job_whose_deletion_no_watch_has_shown() -> None:
    async with simulated(job_body(service="Auto")) as world:
        world.cluster.quota = True
        await world.runs(20)  # between two tries, long after the last write
        lose(world, names.PLURAL, "job")
        world.cluster.quota = False
        before = len(world.writes("POST", "pods"))
        await world.runs(40)
        assert len(world.writes("POST", "pods")) == before


async def test_the_audit_finds_the_deletion_of_a_job_to_which_nothing_happens() -> None:
    done: Body = {"phase": "Succeeded", "conditions": [condition("Succeeded")]}
    async with simulated() as world:
        body = job_body()
        world.cluster.apply(body)
        world.cluster.server.patch(Target(names.PLURAL, "ns", "job", "status"), {"status": done})
        await world.settle()
        lose(world, names.PLURAL, "job")
        await world.runs(70)
        world.operator.check_known()


def condition(type_: str) -> Body:
    stamps = {"lastTransitionTime": "2026-05-04T12:00:00Z", "observedGeneration": 1}
    return {"type": type_, "status": "True", "reason": "x", "message": "", **stamps}
