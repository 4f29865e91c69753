"""The controller on a simulated cluster with late or silent watches: jobs recover from losses."""

import pytest
from dijob import names
from samples.builders import Body, job_body
from simulator.objects import Target
from simulator.simulated import POD_1, World, simulated

pytestmark = pytest.mark.virtual_time


def lose(world: World, plural: str, name: str) -> None:
    """Delete an object while the watch is broken. The watch continues with later changes."""
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


async def test_a_lost_pod_is_replaced_even_if_no_watch_reports_it() -> None:
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


async def test_a_created_object_is_known_before_a_watch_shows_it() -> None:
    async with simulated() as world:
        await world.runs(1)
        world.cluster.apply(job_body())
        world.cluster.watches.held = True
        await world.operator_alone(10)
        assert len(world.writes("POST", "pods")) == 3


async def test_a_deleted_object_is_known_before_a_watch_shows_it() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.edit(suspend=True)
        world.cluster.watches.held = True
        await world.operator_alone(10)
        assert len(world.writes("DELETE", "pods")) == 3


async def test_an_object_lost_in_a_gap_of_the_watch_is_replaced() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        lose(world, "pods", "job-1")
        await world.until(lambda: POD_1 in world.cluster.server.objects, 20)
        await world.settle()
        world.operator.check_known()


async def test_a_silent_watch_is_restarted() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.watches.silence()
        world.cluster.server.remove(POD_1)
        await world.until(lambda: POD_1 in world.cluster.server.objects, 90)


def called(name: str) -> Body:
    """Return another job."""
    body = job_body()
    body["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
    return body


async def test_a_new_leader_reads_what_silent_watches_have_missed() -> None:
    """Both operators may have been connected to an apiserver on the lost node of the leader."""
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


async def test_pods_of_a_job_deleted_unnoticed_are_not_replaced() -> None:
    """The audit finds the deletion within a minute. Until then, pods that the garbage collector
    deletes are not created again.
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


async def test_no_pods_are_created_for_a_job_deleted_unnoticed() -> None:
    async with simulated(job_body(service="Auto")) as world:
        world.cluster.quota = True
        await world.runs(20)  # between two attempts, long after the last write
        lose(world, names.PLURAL, "job")
        world.cluster.quota = False
        before = len(world.writes("POST", "pods"))
        await world.runs(40)
        assert len(world.writes("POST", "pods")) == before


async def test_the_audit_finds_the_deletion_of_an_idle_job() -> None:
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
