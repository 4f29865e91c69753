"""Jobs that grow with Kueue in a simulated cluster: the quota comes first, and the running ranks
stay.
"""

from typing import Any

import pytest
from dijob import names
from samples.builders import job_body, tasks_body
from simulator.connection import Request
from simulator.kueue import LABEL, Kueue, is_true
from simulator.objects import Body
from simulator.queued import queued, queued_body, reported, requests
from simulator.simulated import World

pytestmark = pytest.mark.virtual_time

ELASTIC: dict[str, Any] = {"replicas": 2, "minReplicas": 1, "maxReplicas": 6}


def elastic_body(**spec: Any) -> Body:
    return queued_body(job_body(**{**ELASTIC, **spec}))


def uids(world: World) -> dict[str, str]:
    return {pod.name: uid for uid, pod in world.cluster.pods.items()}


def names_of(kueue: Kueue) -> set[str]:
    return {body["metadata"]["name"] for body in kueue.workloads()}


async def test_a_job_grows_when_there_is_quota_and_its_ranks_stay() -> None:
    async with queued(elastic_body(), quota=3) as (world, kueue):
        await world.running()
        before = uids(world)
        world.cluster.scale(4)
        await world.settle()
        assert uids(world) == before
        reason, message = reported(world)
        assert reason == "AdmittedInPart"
        assert "has admitted 2 ranks, and 2 more are waiting" in message
        assert "insufficient unused quota" in message
        assert world.phase == "Running"
        assert len(kueue.workloads()) == 2
        kueue.quota = 4
        await world.until(lambda: len(world.cluster.pods) == 4)
        await world.running()
        assert before.items() <= uids(world).items()
        assert reported(world)[0] == "Admitted"
        assert kueue.used() == 4
        assert is_true(kueue.only(), "PodsReady")


async def test_a_growth_costs_a_dry_run_a_new_workload_and_the_reports_of_its_readiness() -> None:
    async with queued(elastic_body()) as (world, _):
        await world.running()
        count = len(requests(world))
        world.cluster.scale(4)
        await world.until(lambda: len(world.cluster.pods) == 4)
        await world.running()
        await world.runs(600)
        made = requests(world)[count:]
        assert made[:2] == ["POST", "POST"]
        # The ranks that run are ready. The new ranks are not, until they have joined.
        assert sorted(made[2:]) == ["DELETE", "PATCH", "PATCH", "PATCH"]


@pytest.mark.parametrize("wanted", [5, 3, 2, 1], ids=str)
async def test_a_job_that_is_scaled_again_asks_for_the_new_size(wanted: int) -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        before = names_of(kueue)
        world.cluster.scale(4)
        await world.settle()
        assert len(kueue.workloads()) == 2
        world.cluster.scale(wanted)
        await world.settle()
        sizes = [body["spec"]["podSets"][0]["count"] for body in kueue.workloads()]
        assert sorted(sizes) == ([2, wanted] if wanted > 2 else [2])
        assert before <= names_of(kueue)
        kueue.quota = 6
        await world.until(lambda: len(world.cluster.pods) == wanted)
        await world.running()
        assert kueue.used() == wanted


async def test_a_job_that_was_admitted_in_part_grows_to_its_full_size() -> None:
    async with queued(elastic_body(replicas=6), quota=4) as (world, kueue):
        await world.running()
        before = uids(world)
        assert len(before) == 4
        assert reported(world)[0] == "AdmittedInPart"
        kueue.quota = 6
        await world.until(lambda: len(world.cluster.pods) == 6)
        await world.running()
        assert before.items() <= uids(world).items()


async def test_a_job_that_has_shrunk_grows_back() -> None:
    async with queued(elastic_body(replicas=4), quota=4) as (world, kueue):
        await world.running()
        world.cluster.scale(2)
        await world.until(lambda: kueue.used() == 2)
        world.cluster.scale(4)
        await world.until(lambda: len(world.cluster.pods) == 4)
        await world.running()
        assert kueue.used() == 4


async def test_a_higher_minimum_than_the_admitted_size_needs_only_one_new_workload() -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        world.cluster.edit(replicas=4, minReplicas=3)
        await world.runs(60)
        assert len(kueue.workloads()) == 2
        assert requests(world).count("DELETE") == 0
        kueue.quota = 4
        await world.until(lambda: len(world.cluster.pods) == 4)


async def test_the_last_task_of_a_job_grows() -> None:
    async with queued(queued_body(tasks_body(1, 2))) as (world, kueue):
        await world.running()
        before = uids(world)
        tasks = world.cluster.job().model_dump(by_alias=True, mode="json")["spec"]["tasks"]
        tasks[-1]["replicas"] = 4
        world.cluster.edit(tasks=tasks)
        await world.until(lambda: len(world.cluster.pods) == 5)
        await world.running()
        assert before.items() <= uids(world).items()
        assert kueue.used() == 5


async def test_without_the_feature_the_job_stays_and_says_how_to_grow() -> None:
    async with queued(elastic_body(), slices=False) as (world, kueue):
        await world.running()
        world.cluster.scale(4)
        await world.settle()
        await world.runs(3000)
        assert len(world.cluster.pods) == 2
        assert len(kueue.workloads()) == 1
        reason, message = reported(world)
        assert reason == "AdmittedInPart"
        assert "ElasticJobsViaWorkloadSlices is off" in message
        assert "suspend and resume the job" in message
        # Kueue is asked again, but rarely.
        dry_runs = [call for call in world.line.calls if "dryRun" in call.query]
        assert 2 <= len(dry_runs) <= 12
        world.cluster.edit(suspend=True)
        await world.settle()
        world.cluster.edit(suspend=False)
        await world.running()
        assert len(world.cluster.pods) == 4
        assert reported(world)[0] == "Admitted"


async def test_while_kueue_is_down_the_job_continues_and_grows_later() -> None:
    async with queued(elastic_body()) as (world, kueue):
        await world.running()
        kueue.stopped = True
        world.cluster.scale(4)
        await world.settle()
        assert len(world.cluster.pods) == 2
        assert reported(world)[0] == "AdmittedInPart"
        world.cluster.remove("pods", "job-1")
        await world.until(lambda: "job-1" in world.cluster.names_of("pods"))
        kueue.stopped = False
        await world.until(lambda: len(world.cluster.pods) == 4)


async def test_kueue_may_be_killed_before_it_finishes_the_smaller_workload() -> None:
    async with queued(elastic_body(), dies=True) as (world, kueue):
        await world.running()
        world.cluster.scale(4)
        await world.until(lambda: len(world.cluster.pods) == 4)
        await world.settle()
        assert len(kueue.workloads()) == 1
        assert kueue.used() == 4


async def test_an_evicted_job_does_not_grow_and_is_queued_with_its_new_size() -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        world.cluster.scale(4)
        await world.settle()
        kueue.quota = 0
        kueue.evict()
        await world.until(lambda: not world.cluster.pods, 120)
        await world.settle()
        (pod_set,) = kueue.only()["spec"]["podSets"]
        assert (pod_set["count"], pod_set["minCount"]) == (4, 1)
        kueue.quota = 3
        await world.until(lambda: len(world.cluster.pods) == 3)
        assert world.cluster.job().status.restarts == 0


async def test_a_job_that_has_grown_is_admitted_in_part_after_an_eviction() -> None:
    async with queued(elastic_body(), quota=4) as (world, kueue):
        await world.running()
        world.cluster.scale(4)
        await world.until(lambda: len(world.cluster.pods) == 4)
        kueue.quota = 3
        kueue.evict()
        await world.until(lambda: not world.cluster.pods, 120)
        await world.until(lambda: len(world.cluster.pods) == 3)


@pytest.mark.parametrize("queue", ["team-b", None], ids=["changed", "removed"])
async def test_a_running_job_whose_queue_label_has_changed_does_not_grow(queue: str | None) -> None:
    async with queued(elastic_body(scheduling={"engine": "Kueue"})) as (world, kueue):
        await world.running()
        before = names_of(kueue)
        label = {"kueue.x-k8s.io/queue-name": queue}
        world.cluster.patch("dijobs", "job", {"metadata": {"labels": label}})
        world.cluster.scale(4)
        await world.runs(60)
        assert names_of(kueue) == before
        assert len(world.cluster.pods) == 2
        reason, message = reported(world)
        assert reason == "AdmittedInPart"
        assert "no longer names the queue that admitted the job" in message
        assert "suspend and resume the job" in message
        # It shrinks as before.
        world.cluster.scale(1)
        await world.until(lambda: kueue.used() == 1)
        assert reported(world)[0] == "Admitted"


async def test_a_growth_that_waits_is_withdrawn_when_the_queue_label_changes() -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        before = names_of(kueue)
        world.cluster.scale(4)
        await world.settle()
        assert len(kueue.workloads()) == 2
        label = {"kueue.x-k8s.io/queue-name": "team-b"}
        world.cluster.patch("dijobs", "job", {"metadata": {"labels": label}})
        await world.settle()
        assert names_of(kueue) == before
        world.cluster.patch("dijobs", "job", {"metadata": {"labels": LABEL}})
        kueue.quota = 4
        await world.until(lambda: len(world.cluster.pods) == 4)


@pytest.mark.parametrize("scaled", [3, 4, 6], ids=str)
async def test_a_job_without_the_record_of_its_last_task_keeps_its_size(scaled: int) -> None:
    """Kueue has admitted only a part of the size, so the status does not contain it."""
    async with queued(queued_body(tasks_body(1, 2)), quota=3) as (world, kueue):
        await world.running()
        world.cluster.edit(replicas=scaled)
        await world.settle()
        assert reported(world)[0] == "AdmittedInPart"
        record = {names.ANNOTATION_LAST_TASK: None}
        world.cluster.patch("dijobs", "job", {"metadata": {"annotations": record}})
        await world.settle()
        assert world.cluster.job().spec.scale == scaled
        kueue.quota = 10
        await world.until(lambda: len(world.cluster.pods) == scaled + 1)


async def test_a_suspended_job_does_not_wait_for_quota() -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        world.cluster.scale(4)
        await world.settle()
        world.cluster.edit(suspend=True)
        await world.settle()
        assert kueue.workloads() == []


async def test_a_job_that_has_ended_does_not_wait_for_quota() -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        world.cluster.scale(4)
        await world.settle()
        world.cluster.edit(activeDeadlineSeconds=1)
        await world.until(lambda: world.phase == "Failed", 300)
        await world.settle()
        assert is_true(kueue.only(), "Finished")
        assert kueue.used() == 0


async def test_a_job_that_ends_during_a_growth_gives_all_quota_back() -> None:
    async with queued(elastic_body(), dies=True) as (world, kueue):
        await world.running()
        world.cluster.scale(4)
        world.cluster.edit(activeDeadlineSeconds=1)
        await world.restart()
        await world.until(lambda: world.phase == "Failed", 300)
        await world.settle()
        assert kueue.used() == 0


async def test_the_next_operator_continues_a_growth() -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        before = uids(world)
        world.cluster.scale(4)
        await world.settle()
        known = names_of(kueue)
        await world.restart()
        await world.settle()
        assert names_of(kueue) == known
        kueue.quota = 4
        await world.until(lambda: len(world.cluster.pods) == 4)
        assert before.items() <= uids(world).items()


async def test_a_workload_that_was_admitted_meanwhile_is_not_deleted() -> None:
    async with queued(elastic_body(), quota=2) as (world, kueue):
        await world.running()
        before = uids(world)
        world.cluster.scale(4)
        await world.settle()

        def admit_first(request: Request) -> None:
            """Admit the larger Workload just before the operator deletes it."""
            if request.method == "DELETE" and kueue.quota == 2:
                kueue.quota = 6
                kueue.work()

        world.line.judge = admit_first
        world.cluster.scale(5)
        await world.until(lambda: len(world.cluster.pods) == 5)
        assert before.items() <= uids(world).items()
        assert world.phase == "Running"


def learners_body(**task: Any) -> Body:
    """Return a job whose last task is a group of learners."""
    body = tasks_body(1, 1, 2)
    body["spec"]["tasks"][-1] |= {"runtime": "torch", **task}
    return queued_body(body)


def succeed(world: World, *pods: str) -> None:
    for name in pods:
        pod = world.cluster.pod(name)
        pod.end(pod.main, 0)
        world.cluster.report(pod)


@pytest.mark.parametrize("before", ["scaled", "admitted in part"])
async def test_a_group_that_has_succeeded_keeps_its_size(before: str) -> None:
    part: dict[str, Any] = {"replicas": 4, "minReplicas": 1} if before != "scaled" else {}
    async with queued(learners_body(**part), quota=4) as (world, kueue):
        await world.running()
        assert len(world.cluster.pods) == 4
        kueue.quota = 2
        succeed(world, "job-collector-0", "job-collector-1")
        await world.settle()
        assert kueue.used() == 2
        if before == "scaled":
            world.cluster.scale(5)
            await world.settle()
        status = world.cluster.job().status
        assert status.succeeded_ranks == "2-3"
        assert (status.desired, status.list_number) == (4, 1)
