"""The shell on a simulated cluster: what its passes make of what the apiserver says, does not say,
or says twice.
"""

import pytest
from dijob import names
from dijob.api.status import timestamp
from dijob.core.report.summary import Pressure, is_true
from dijob.reasons import PodsCreated
from dijob.shell.status_writer import INTERVAL_SECONDS
from unit.builders import NOW, Body, job_body
from unit.objects import Target
from unit.simulated import World, simulated
from unit.wire import Fault

pytestmark = pytest.mark.virtual_time

POD_1 = Target("pods", "ns", "job-1")


def reason(world: World, type_: str) -> str:
    return next(c.reason for c in world.cluster.job().status.conditions if c.type == type_)


def lose(world: World, plural: str, name: str) -> None:
    """An object goes, and the watch breaks before it says so; it goes on with what happens
    afterwards.
    """
    world.cluster.watches.held = True
    world.cluster.server.remove(Target(plural, "ns", name))
    world.cluster.watches.end("reset")
    world.cluster.server.compact()
    world.cluster.watches.held = False


async def test_a_job_starts_and_says_so_at_once() -> None:
    async with simulated(job_body()) as world:
        seconds = await world.until(lambda: world.phase == "Running")
        assert seconds < INTERVAL_SECONDS[Pressure.SOON]
        await world.settle()
        assert world.cluster.names_of("pods") == {"job-0", "job-1", "job-2"}
        assert {process.env["DI_NODES"] for process in world.cluster.processes} == {
            "10.0.0.1,10.0.0.2,10.0.0.3"
        }
        world.operator.check_known()


def statuses(world: World) -> list[Body]:
    return [call.body["status"] for call in world.writes("PATCH") if call.target.sub == "status"]


async def test_a_start_that_is_quick_takes_two_statuses() -> None:
    """The number of its list before any pod has it, and Running."""
    async with simulated(job_body()) as world:
        await world.running()
        written = statuses(world)
        assert [status.get("listNumber") for status in written] == [1, None]
        assert written[1]["phase"] == "Running"


async def test_a_start_that_waits_says_so_and_since_when() -> None:
    async with simulated(job_body()) as world:
        await world.operator_alone(INTERVAL_SECONDS[Pressure.SOON] - 0.5)
        assert not statuses(world)
        await world.operator_alone(1)
        (first,) = statuses(world)
        assert first["phase"] == "Pending"
        assert first["startTime"] == timestamp(NOW), "when it was first seen, not written"
        waits = next(c for c in first["conditions"] if c["type"] == "Running")
        assert waits["lastTransitionTime"] == first["startTime"]


async def test_a_job_that_cannot_begin_says_why_at_once() -> None:
    async with simulated(job_body()) as world:
        world.cluster.quota = True
        await world.operator_alone(0.5)
        assert "quota" in statuses(world)[0]["message"]


async def test_a_new_operator_finds_all_as_it_should_be_and_writes_nothing() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        version = world.cluster.server.version
        await world.restart()
        await world.runs(400)
        assert world.cluster.server.version == version
        world.operator.check_known()


async def test_a_status_that_meets_a_conflict_is_written_again_at_once() -> None:
    async with simulated(job_body()) as world:
        await world.until(lambda: len(world.cluster.processes) == 3)
        world.refuse("PATCH", names.PLURAL, 409)
        await world.until(lambda: world.phase == "Running", 1.5)


async def test_a_write_whose_answer_is_lost_is_not_made_twice() -> None:
    async with simulated(job_body(), starts=False) as world:
        world.refuse("POST", "pods", 503, done=True)
        world.operator.start()
        await world.running()
        assert len(world.writes("POST", "pods")) == 3
        world.operator.check_known()


async def test_a_job_that_is_suspended_often_goes_on_at_once_each_time() -> None:
    """Its user takes its pods away, who wants them back: that is no pod that goes again and again,
    which is made more and more rarely.
    """
    async with simulated(job_body()) as world:
        await world.until(lambda: world.phase == "Running")
        for _ in range(8):
            world.cluster.edit(suspend=True)
            await world.until(lambda: world.phase == "Suspended")
            world.cluster.edit(suspend=False)
            await world.until(lambda: world.phase == "Running", 6)


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
    async with simulated(job_body()) as world:
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


async def test_a_deleted_job_is_forgotten() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.remove(names.PLURAL, "job")
        await world.settle()
        assert world.cluster.names_of("pods") == set()
        world.operator.check_known()


async def test_what_a_quota_refuses_is_asked_for_more_and_more_rarely() -> None:
    async with simulated(job_body()) as world:
        world.cluster.quota = True
        await world.runs(60)
        assert len(world.writes("POST", "pods")) < 25
        assert reason(world, "PodsCreated") == "PodForbidden"
        world.cluster.quota = False
        await world.until(lambda: world.phase == "Running", 90)


async def test_somebody_elses_pod_is_left_alone() -> None:
    async with simulated(starts=False) as world:
        theirs = world.cluster.create(
            "pods",
            {
                "metadata": {"name": "job-1", "labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "x"}]},
            },
        )
        world.cluster.apply(job_body())
        world.operator.start()
        await world.runs(30)
        stored = world.cluster.read("pods", "job-1")["metadata"]
        assert (stored["uid"], stored["labels"]) == (theirs["metadata"]["uid"], {"app": "theirs"})
        assert not is_true(world.cluster.job().status, PodsCreated)


async def test_labels_that_were_taken_off_are_put_back() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        uid = world.cluster.read("pods", "job-1")["metadata"]["uid"]
        world.cluster.patch("pods", "job-1", {"metadata": {"labels": {names.MANAGED_BY: None}}})
        await world.settle()
        stored = world.cluster.read("pods", "job-1")["metadata"]
        assert (stored["uid"], stored["labels"][names.MANAGED_BY]) == (uid, names.MANAGER)


@pytest.mark.parametrize(
    "fault", [("GET", 503), ("GET", 0), ("PATCH", 503), ("PATCH", 403)], ids=str
)
async def test_a_pod_that_lost_its_label_is_not_lost_whatever_the_apiserver_answers(
    fault: tuple[str, int],
) -> None:
    method, status = fault
    async with simulated(job_body()) as world:
        await world.running()
        world.line.faults.append(Fault(method, "pods", status, times=2))
        world.cluster.patch("pods", "job-1", {"metadata": {"labels": {names.MANAGED_BY: None}}})
        await world.settle()
        assert not world.line.faults
        found = world.cluster.job().status
        assert (found.renewals, found.list_number, found.phase) == (0, 1, "Running")
        assert (
            world.cluster.read("pods", "job-1")["metadata"]["labels"][names.MANAGED_BY]
            == names.MANAGER
        )


async def test_the_pods_of_a_job_that_is_being_deleted_are_not_asked_for() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        world.cluster.patch(
            names.PLURAL, "job", {"metadata": {"finalizers": ["example.org/stays"]}}
        )
        world.cluster.remove(names.PLURAL, "job")
        await world.runs(1)
        world.line.calls.clear()
        world.cluster.remove("pods", "job-1")
        world.nodes.work()
        await world.runs(5)
        assert not [
            call
            for call in world.line.calls
            if call.about("GET", "pods") and call.target.name == "job-1"
        ]


async def test_an_older_crd_is_named() -> None:
    async with simulated(job_body(), starts=False) as world:
        world.cluster.server.pruned.add("listNumber")
        world.operator.start()
        await world.runs(20)
        assert "listNumber" not in world.cluster.read(names.PLURAL, "job")["status"]
        assert len(world.writes("PATCH", names.PLURAL)) < 10


def condition(type_: str) -> Body:
    stamps = {"lastTransitionTime": "2026-05-04T12:00:00Z", "observedGeneration": 1}
    return {"type": type_, "status": "True", "reason": "x", "message": "", **stamps}
