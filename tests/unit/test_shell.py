"""The shell on a simulated cluster: what its passes make of what the apiserver says, refuses, or
says twice.
"""

import pytest
from dijob import names
from dijob.api.status import timestamp
from dijob.core.report.summary import Pressure, find, is_true
from dijob.reasons import PodsCreated
from dijob.shell.status_writer import INTERVAL_SECONDS
from unit.builders import NOW, UID, Body, job_body
from unit.simulated import World, simulated
from unit.wire import Fault

pytestmark = pytest.mark.virtual_time


def reason(world: World, type_: str) -> str:
    return next(c.reason for c in world.cluster.job().status.conditions if c.type == type_)


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


async def test_refused_ranks_are_one_group_with_a_name_of_their_own() -> None:
    """X1: whether a rank's pod was tried, or its refusal was concluded from another's."""
    async with simulated(job_body(replicas=6)) as world:
        world.cluster.quota = True
        said = set[str]()
        for _ in range(60):
            await world.operator_alone(0.5)
            created = find(world.cluster.job("job").status, PodsCreated)
            said |= {created.message} if created else set()
        assert said == {'ranks 0-5: pods "job-0" is forbidden: exceeded quota'}
        memory = world.operator.reconciler._memories.of(UID)
        assert {key: no.message for key, no in memory.refusals.items()} == {
            f"pod/job-{rank}": f'pods "job-{rank}" is forbidden: exceeded quota'
            for rank in range(6)
        }


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
