"""Jobs with a queue of Kueue in a simulated cluster: admission, eviction, and the requests."""

from typing import Any

import pytest
from samples.builders import job_body, tasks_body
from simulator.connection import Fault
from simulator.kueue import LABEL, QUEUE, condition, is_true
from simulator.objects import Body
from simulator.queued import OPTIONS, queued, queued_body, reported, requests
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

NOT_SERVED = "the server could not find the requested resource"


async def test_without_the_integration_nothing_is_read_or_written() -> None:
    async with simulated(queued_body()) as world:
        await world.running()
        assert [c for c in world.line.calls if c.target.plural == "workloads"] == []
        warning = reported(world, "SpecWarning")[1]
        assert "scheduling.kueue" in warning


async def test_jobs_without_a_queue_cost_the_same_with_the_integration() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        without = len(world.writes())
    async with queued(job_body()) as (world, _):
        await world.running()
        assert len(world.writes()) == without
        assert requests(world) == []


async def test_a_job_waits_for_its_quota_and_then_starts() -> None:
    async with queued(queued_body(), quota=2) as (world, kueue):
        await world.settle()
        assert world.cluster.pods == {}
        assert world.phase == "Suspended"
        assert reported(world)[0] == "Queued"
        message = world.cluster.job().status.message
        assert message.startswith(f"queued in {QUEUE}")
        assert "insufficient unused quota" in message
        kueue.quota = 3
        await world.running()
        assert reported(world)[0] == "Admitted"
        assert condition(kueue.only(), "PodsReady") == "True"


async def test_pods_get_the_nodes_of_the_flavor_and_the_updates_of_checks() -> None:
    update = {"name": "main", "nodeSelector": {"zone": "z"}, "labels": {"a": "b"}}
    async with queued(queued_body(), updates=(update,)) as (world, _):
        await world.running()
        body = world.cluster.pod("job-1").body
        assert body["spec"]["nodeSelector"] == {"pool": "default", "zone": "z"}
        assert {"key": "pool", "operator": "Exists"} in body["spec"]["tolerations"]
        assert body["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
        assert body["metadata"]["labels"]["a"] == "b"
        assert requests(world, "resourceflavors") == []  # cluster-scoped, so without a namespace


async def test_a_start_costs_one_workload_and_one_report() -> None:
    async with queued(queued_body()) as (world, _):
        await world.running()
        await world.runs(600)
        assert requests(world) == ["POST", "PATCH"]


async def test_an_evicted_job_stops_and_comes_back_without_a_failure() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        kueue.quota = 0
        kueue.evict()
        await world.until(lambda: not is_true(kueue.only(), "QuotaReserved"), 120)
        assert world.cluster.pods == {}
        await world.settle()
        assert world.phase == "Suspended"
        assert condition(kueue.only(), "PodsReady") == "False"
        assert is_true(kueue.only(), "Requeued")
        kueue.quota = 3
        await world.running()
        assert world.cluster.job().status.restarts == 0
        assert condition(kueue.only(), "PodsReady") == "True"


async def test_quota_is_given_back_only_when_the_pods_are_gone() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        for pod in world.cluster.pods.values():
            pod.silent = True
        kueue.evict()
        await world.runs(20)
        assert is_true(kueue.only(), "QuotaReserved")
        assert reported(world)[0] == "Evicted"
        assert "Preempted" in world.cluster.job().status.message


async def test_after_a_timeout_kueue_decides_when_the_job_is_queued_again() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        kueue.evict("PodsReadyTimeout")
        await world.settle()
        assert condition(kueue.only(), "Requeued") == "False"
        assert world.cluster.pods == {}
        kueue.requeue()
        await world.running()


async def test_a_deactivated_job_says_what_to_do() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        kueue.activate(False)
        await world.settle()
        assert world.cluster.pods == {}
        reason, message = reported(world)
        assert reason == "Deactivated"
        assert "kubectl patch workloads.kueue.x-k8s.io" in message
        kueue.activate(True)
        await world.running()


async def test_a_suspended_job_has_no_workload_and_a_resumed_one_gets_a_new_one() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        before = kueue.only()["metadata"]["uid"]
        world.cluster.edit(suspend=True)
        await world.settle()
        assert kueue.workloads() == []
        world.cluster.edit(suspend=False)
        await world.running()
        assert kueue.only()["metadata"]["uid"] != before


async def test_a_suspended_job_is_not_queued() -> None:
    async with queued(queued_body(suspend=True)) as (world, kueue):
        await world.settle()
        assert kueue.workloads() == []
        assert requests(world) == []


async def test_partial_admission_bounds_the_world() -> None:
    async with queued(queued_body(replicas=4, minReplicas=2), quota=3) as (world, kueue):
        await world.running()
        assert len(world.cluster.pods) == 3
        assert world.cluster.job().spec.replicas == 4
        reason, message = reported(world)
        assert reason == "AdmittedInPart"
        assert "3 ranks" in message
        assert kueue.used() == 3


async def test_a_job_that_shrinks_gives_quota_back_once() -> None:
    spec: dict[str, Any] = {"replicas": 4, "minReplicas": 1, "maxReplicas": 4}
    async with queued(queued_body(job_body(**spec)), slices=False) as (world, kueue):
        await world.running()
        world.cluster.scale(2)
        await world.settle()
        assert kueue.used() == 2
        count = len(requests(world))
        world.cluster.scale(4)
        await world.settle()
        # The quota is gone, so the two ranks wait.
        assert len(world.cluster.pods) == 2
        assert kueue.used() == 2
        assert requests(world)[count:] == ["POST"]  # a dry run


async def test_ranks_that_succeed_give_their_quota_back() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        pod = world.cluster.pod("job-2")
        pod.end(pod.main, 0)
        world.cluster.report(pod)
        await world.settle()
        assert kueue.used() == 2
        for name in ("job-0", "job-1"):
            pod = world.cluster.pod(name)
            pod.end(pod.main, 0)
            world.cluster.report(pod)
        await world.until(lambda: world.phase == "Succeeded")
        await world.settle()
        assert is_true(kueue.only(), "Finished")
        assert kueue.used() == 0


async def test_a_rank_that_may_run_again_keeps_its_quota() -> None:
    body = queued_body(runtime="torch", restart={"scope": "Job"})
    async with queued(body) as (world, kueue):
        await world.running()
        pod = world.cluster.pod("job-2")
        pod.end(pod.main, 0)
        world.cluster.report(pod)
        await world.settle()
        assert kueue.used() == 3


async def test_each_task_is_a_pod_set() -> None:
    async with queued(queued_body(tasks_body(1, 2))) as (world, kueue):
        await world.running()
        sets = kueue.only()["spec"]["podSets"]
        assert [one["count"] for one in sets] == [1, 2]
        labels = [
            pod.body["metadata"]["labels"]["kueue.x-k8s.io/podset"]
            for pod in sorted(world.cluster.pods.values(), key=lambda pod: pod.rank)
        ]
        assert labels == [sets[0]["name"], sets[1]["name"], sets[1]["name"]]


async def test_a_job_that_is_edited_while_it_waits_gets_a_new_workload() -> None:
    async with queued(queued_body(), quota=2) as (world, kueue):
        await world.settle()
        world.cluster.scale(2)
        await world.running()
        assert len(world.cluster.pods) == 2
        assert kueue.only()["spec"]["podSets"][0]["count"] == 2


async def test_the_next_operator_continues_from_the_workload() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        uids = set(world.cluster.pods)
        await world.restart()
        await world.settle()
        assert set(world.cluster.pods) == uids
        world.cluster.delete(world.cluster.pod("job-1"))
        await world.settle()
        body = world.cluster.pod("job-1").body
        assert body["spec"]["nodeSelector"] == {"pool": "default"}
        assert world.phase == "Running"
        assert len(kueue.workloads()) == 1


async def test_a_workload_that_somebody_deletes_is_created_again() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        before = kueue.only()["metadata"]
        world.cluster.remove("workloads", before["name"])
        await world.until(lambda: world.phase != "Running")
        await world.running()
        assert kueue.only()["metadata"]["uid"] != before["uid"]
        assert world.cluster.job().status.restarts == 0


async def test_a_cluster_without_kueue_gets_few_requests() -> None:
    async with simulated(queued_body(), options=OPTIONS, starts=False) as world:
        world.line.faults.append(Fault("", "workloads", 404, 1_000_000, message=NOT_SERVED))
        world.line.faults.append(Fault("WATCH", "workloads", 404, 1_000_000, message=NOT_SERVED))
        world.operator.start()
        await world.runs(600)
        calls = [call for call in world.line.calls if call.target.plural == "workloads"]
        assert 10 <= len(calls) <= 25
        assert {call.method for call in calls} == {"GET"}
        assert world.cluster.pods == {}
        reason, message = reported(world)
        assert reason == "NotServed"
        assert "kubectl api-resources" in message


async def test_without_permission_the_condition_quotes_the_api_error() -> None:
    async with simulated(queued_body(), options=OPTIONS, starts=False) as world:
        refusal = "workloads is forbidden: no"
        world.line.faults.append(Fault("", "workloads", 403, 1_000_000, message=refusal))
        world.line.faults.append(Fault("WATCH", "workloads", 403, 1_000_000, message=refusal))
        world.operator.start()
        await world.runs(300)
        reason, message = reported(world)
        assert reason == "GroupRefused"
        assert refusal in message


async def test_a_queue_that_does_not_exist_is_named() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "team-z"}
    async with queued(queued_body(labels=labels), quota=0) as (world, _):
        await world.runs(60)
        reason, message = reported(world)
        assert reason == "QueueMissing"
        assert "team-z" in message
        assert len(requests(world, "localqueues")) <= 4


async def test_the_label_without_the_operator_flag_and_the_engine_says_so() -> None:
    body = queued_body(scheduling={"engine": "Kueue"})
    async with simulated(body) as world:
        await world.settle()
        assert world.cluster.pods == {}
        assert reported(world)[0] == "NotServed"
        assert "scheduling.kueue" in reported(world)[1]


async def end_rank(world: World, name: str) -> None:
    pod = world.cluster.pod(name)
    pod.end(pod.main, 0)
    world.cluster.report(pod)
    await world.settle()


def label(world: World, plural: str, labels: Body) -> None:
    target = next(one for one in world.cluster.server.objects if one.plural == plural)
    world.cluster.server.patch(target, {"metadata": {"labels": labels}})


async def test_a_job_that_is_evicted_after_a_success_comes_back_with_all_other_ranks() -> None:
    async with queued(queued_body(replicas=4)) as (world, kueue):
        await world.running()
        await end_rank(world, "job-0")
        kueue.evict()
        await world.until(lambda: not world.cluster.pods, 120)
        await world.running()
        assert {"job-1", "job-2", "job-3"} <= {pod.name for pod in world.cluster.pods.values()}


async def test_a_new_operator_replaces_a_lost_rank_of_a_job_with_a_redis_server() -> None:
    async with queued(queued_body(replicas=3, messageQueue={"type": "redis"})) as (world, _):
        await world.running()
        await world.restart()
        await world.settle()
        world.cluster.remove("pods", "job-1")
        await world.runs(120)
        assert "job-1" in world.cluster.names_of("pods")


async def test_a_priority_class_that_does_not_exist_is_asked_for_rarely() -> None:
    labels = {**LABEL, "kueue.x-k8s.io/priority-class": "absent"}
    async with queued(queued_body(labels=labels)) as (world, _):
        await world.runs(300)
        asked = [c for c in world.line.calls if c.target.plural == "workloadpriorityclasses"]
        assert 2 <= len(asked) <= 10
        assert reported(world)[0] == "GroupRefused"


@pytest.mark.parametrize("restarts", [False, True], ids=["same operator", "new operator"])
async def test_a_job_without_its_label_stops_when_it_is_evicted(restarts: bool) -> None:
    async with queued(queued_body(scheduling={"engine": "Kueue"})) as (world, kueue):
        await world.running()
        label(world, "dijobs", {"kueue.x-k8s.io/queue-name": None})
        if restarts:
            await world.restart()
        await world.runs(30)
        assert len(world.cluster.pods) == 3
        kueue.quota = 0
        kueue.evict()
        await world.runs(120)
        assert world.cluster.pods == {}
        assert kueue.used() == 0
        assert reported(world)[0] == "QueueMissing"
        label(world, "dijobs", LABEL)
        kueue.quota = 100
        await world.running()


async def test_a_waiting_job_that_loses_its_label_is_rarely_reconciled() -> None:
    async with queued(queued_body(scheduling={"engine": "Kueue"}), quota=0) as (world, _):
        await world.runs(60)
        label(world, "dijobs", {"kueue.x-k8s.io/queue-name": None})
        await world.settle()
        assert reported(world)[0] == "QueueMissing"
        passes = world.operator.passes
        await world.runs(120)
        assert world.operator.passes - passes <= 10


async def test_a_job_without_a_workload_is_rarely_reconciled_while_its_pods_stop() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        world.cluster.remove("workloads", kueue.only()["metadata"]["name"])
        await world.operator_alone(5)
        passes = world.operator.passes
        await world.operator_alone(20)
        assert kueue.workloads() == []
        assert world.operator.passes - passes <= 10


async def test_removed_labels_of_a_workload_are_restored() -> None:
    async with queued(queued_body()) as (world, kueue):
        await world.running()
        before = kueue.only()["metadata"]
        label(world, "workloads", dict.fromkeys(before["labels"]))
        await world.runs(120)
        await world.running()
        assert kueue.only()["metadata"]["labels"] == before["labels"]
        assert kueue.only()["metadata"]["uid"] == before["uid"]


@pytest.mark.parametrize("change", ["shrinks", "succeeds"])
async def test_a_job_that_was_admitted_in_part_gives_quota_back(change: str) -> None:
    sizes: dict[str, Any] = {"replicas": 8, "minReplicas": 2, "maxReplicas": 8}
    async with queued(queued_body(**sizes), quota=6) as (world, kueue):
        await world.running()
        assert kueue.used() == 6
        if change == "shrinks":
            world.cluster.scale(4)
            await world.settle()
            assert kueue.used() == 4
        else:
            await end_rank(world, "job-0")
            await world.runs(60)
            assert kueue.used() == 5


async def test_the_scale_of_a_job_with_tasks_is_not_that_of_its_admission() -> None:
    async with queued(queued_body(tasks_body(1, 3)), slices=False) as (world, _):
        await world.running()
        tasks = world.cluster.job().model_dump(by_alias=True, mode="json")["spec"]["tasks"]
        tasks[-1]["replicas"] = 5
        world.cluster.edit(tasks=tasks)
        await world.runs(60)
        calls = [call for call in world.line.calls if call.target.plural == "dijobs"]
        written = [call.body["spec"] for call in calls if "spec" in call.body]
        assert [spec["replicas"] for spec in written] == [3, 5]


async def test_a_report_that_kueue_rejects_does_not_stop_the_job() -> None:
    async with queued(queued_body()) as (world, kueue):
        message = "failed calling webhook: connection refused"
        world.line.faults.append(Fault("PATCH", "workloads", 500, 3, message=message))
        await world.running()
        world.cluster.remove("pods", "job-1")
        await world.until(lambda: "job-1" in world.cluster.names_of("pods"))
        await world.running()
        await world.runs(120)
        assert condition(kueue.only(), "PodsReady") == "True"
        assert reported(world)[0] == "Admitted"
