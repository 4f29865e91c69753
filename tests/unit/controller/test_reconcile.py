"""The controller on a simulated cluster, with conflicts, rejections and lost responses."""

import pytest
from dijob import names
from dijob.api.status import format_time
from dijob.controller.write.status_writer import INTERVAL_SECONDS
from dijob.core.facts import find_condition, is_true
from dijob.core.report.summary import Pressure
from dijob.reasons import PodsCreated
from samples.builders import NOW, UID, Body, job_body
from simulator.connection import Fault
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time


def reason(world: World, type_: str) -> str:
    return next(c.reason for c in world.cluster.job().status.conditions if c.type == type_)


async def test_a_job_starts_and_reports_it_at_once() -> None:
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


async def test_a_quick_start_writes_two_statuses() -> None:
    """One with the revision, before any pod has the list, and one with Running."""
    async with simulated(job_body()) as world:
        await world.running()
        written = statuses(world)
        assert [status.get("listNumber") for status in written] == [1, None]
        assert written[1]["phase"] == "Running"


async def test_a_start_that_waits_reports_the_reason_and_since_when() -> None:
    async with simulated(job_body()) as world:
        await world.operator_alone(INTERVAL_SECONDS[Pressure.SOON] - 0.5)
        assert not statuses(world)
        await world.operator_alone(1)
        (first,) = statuses(world)
        assert first["phase"] == "Pending"
        assert first["startTime"] == format_time(NOW), "when it was first seen, not written"
        waits = next(c for c in first["conditions"] if c["type"] == "Running")
        assert waits["lastTransitionTime"] == first["startTime"]


async def test_a_job_that_cannot_start_reports_the_reason_at_once() -> None:
    async with simulated(job_body()) as world:
        world.cluster.quota = True
        await world.operator_alone(0.5)
        assert "quota" in statuses(world)[0]["message"]


async def test_rejected_ranks_are_reported_as_one_group() -> None:
    """X1: pods that were not tried after a rejection are in the same group."""
    async with simulated(job_body(replicas=6)) as world:
        world.cluster.quota = True
        said = set[str]()
        for _ in range(60):
            await world.operator_alone(0.5)
            created = find_condition(world.cluster.job("job").status, PodsCreated)
            said |= {created.message} if created else set()
        assert said == {'ranks 0-5: pods "job-0" is forbidden: exceeded quota'}
        memory = world.operator.reconciler._memories.of(UID)
        assert {key: no.message for key, no in memory.rejections.items()} == {
            f"pod/job-{rank}": f'pods "job-{rank}" is forbidden: exceeded quota'
            for rank in range(6)
        }


async def test_a_new_operator_writes_nothing_if_nothing_has_changed() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        version = world.cluster.server.version
        await world.restart()
        await world.runs(400)
        assert world.cluster.server.version == version
        world.operator.check_known()


async def test_a_status_write_with_a_conflict_is_retried_at_once() -> None:
    async with simulated(job_body()) as world:
        await world.until(lambda: len(world.cluster.processes) == 3)
        world.refuse("PATCH", names.PLURAL, 409)
        await world.until(lambda: world.phase == "Running", 1.5)


async def test_a_write_whose_response_is_lost_is_not_repeated() -> None:
    async with simulated(job_body(), starts=False) as world:
        world.refuse("POST", "pods", 503, done=True)
        world.operator.start()
        await world.running()
        assert len(world.writes("POST", "pods")) == 3
        world.operator.check_known()


async def test_a_job_that_is_suspended_often_resumes_at_once_each_time() -> None:
    """Pods that are removed by a suspension are not lost, so their creation has no back-off."""
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


async def test_a_creation_that_a_quota_rejects_is_retried_with_back_off() -> None:
    async with simulated(job_body()) as world:
        world.cluster.quota = True
        await world.runs(60)
        assert len(world.writes("POST", "pods")) < 25
        assert reason(world, "PodsCreated") == "PodForbidden"
        world.cluster.quota = False
        await world.until(lambda: world.phase == "Running", 90)


async def test_a_pod_of_another_owner_is_not_touched() -> None:
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


async def test_removed_labels_are_restored() -> None:
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
async def test_a_pod_without_its_label_is_not_lost(
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


async def test_pods_of_a_job_that_is_being_deleted_are_not_looked_up() -> None:
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


async def test_an_older_crd_is_reported() -> None:
    async with simulated(job_body(), starts=False) as world:
        world.cluster.server.pruned.add("listNumber")
        world.operator.start()
        await world.runs(20)
        assert "listNumber" not in world.cluster.read(names.PLURAL, "job")["status"]
        assert len(world.writes("PATCH", names.PLURAL)) < 10
