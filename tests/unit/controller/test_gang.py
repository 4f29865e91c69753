"""Gang scheduling in a simulated cluster: the requests for a job's PodGroup, and clusters that do
not serve PodGroups.
"""

from typing import Any

import pytest
from dijob.core.options import Options
from dijob.names import Engine
from samples.builders import job_body, tasks_body
from simulator.connection import Fault
from simulator.objects import Target
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

NATIVE: dict[str, Any] = {"scheduling": {"engine": "Native"}}
NOT_SERVED = "the server could not find the requested resource"
GROUP = Target("podgroups", "ns", "job")


def requests(world: World, plural: str = "podgroups") -> list[str]:
    return [call.method for call in world.line.calls if call.target.plural == plural]


def count(world: World, name: str = "job") -> int:
    group = world.cluster.read("podgroups", name)
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


def condition(world: World) -> tuple[str, str]:
    found = (one for one in world.cluster.job().status.conditions if one.type == "GangScheduled")
    return next(((one.reason, one.message) for one in found), ("", ""))


async def test_a_gang_costs_one_read_and_one_write() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        without = len(world.writes())
        assert requests(world) == []
    async with simulated(job_body(**NATIVE)) as world:
        await world.running()
        assert requests(world) == ["GET", "POST"]
        assert len(world.writes()) == without + 1
        assert condition(world)[0] == "Placed"


async def test_a_running_gang_is_not_read_by_the_next_operator_until_a_rank_is_lost() -> None:
    async with simulated(job_body(**NATIVE)) as world:
        await world.running()
        await world.restart()
        await world.settle()
        assert requests(world) == ["GET", "POST"]
        world.cluster.delete(world.cluster.pod("job-1"))
        await world.settle()
        assert requests(world) == ["GET", "POST", "GET"]
        assert world.phase == "Running"


async def test_tasks_keep_their_engine_if_the_operators_default_changes() -> None:
    async with simulated(tasks_body(1, 2), options=Options(engine=Engine.NATIVE)) as world:
        await world.running()
        world.options = Options()
        await world.restart()
        (lost, *_) = [pod for pod in world.cluster.pods.values() if pod.rank == 2]
        world.cluster.delete(lost)
        await world.settle()
        (new,) = [pod for pod in world.cluster.pods.values() if pod.rank == 2]
        assert new.uid != lost.uid
        assert new.group == "job"


async def test_a_job_with_the_name_of_a_deleted_one_waits_for_the_old_group() -> None:
    async with simulated(job_body(**NATIVE)) as world:
        await world.running()
        world.cluster.remove("dijobs", "job")
        body = job_body(**NATIVE)
        world.cluster.apply({**body, "metadata": {**body["metadata"], "uid": "another"}})
        await world.until(lambda: world.phase == "Running", 120)
        assert count(world) == 3


async def test_the_operators_engine_applies_to_jobs_that_choose_none() -> None:
    options = Options(engine=Engine.NATIVE)
    async with simulated(job_body(), options=options) as world:
        await world.running()
        assert count(world) == 3
    async with simulated(job_body(scheduling={"engine": "None"}), options=options) as world:
        await world.running()
        assert requests(world) == []


async def test_pods_keep_their_engine_if_the_operators_default_changes() -> None:
    """Otherwise, a lost rank would be alone in a new group, and wait for the others forever."""
    async with simulated(job_body()) as world:
        await world.running()
        world.options = Options(engine=Engine.NATIVE)
        await world.restart()
        world.cluster.delete(world.cluster.pod("job-1"))
        await world.settle()
        assert world.phase == "Running"
        assert requests(world) == []


async def test_a_lost_rank_is_placed_after_another_has_succeeded() -> None:
    async with simulated(job_body(**NATIVE)) as world:
        await world.running()
        first, other = world.cluster.pod("job-2"), world.cluster.pod("job-1")
        first.end(first.main, 0)
        world.cluster.report(first)
        await world.settle()
        assert count(world) == 3  # nothing needs the smaller number yet
        world.cluster.delete(other)
        await world.settle()
        assert count(world) == 2
        assert world.cluster.pod("job-1").process is not None


async def test_each_life_has_a_group_of_its_own() -> None:
    async with simulated(job_body(**NATIVE)) as world:
        await world.running()
        world.cluster.edit(suspend=True)
        await world.settle()
        assert world.cluster.names_of("podgroups") == set()
        world.cluster.edit(suspend=False)
        await world.running()
        (name,) = world.cluster.names_of("podgroups")
        assert name.startswith("job-")
        assert {pod.group for pod in world.cluster.pods.values()} == {name}


async def test_a_gang_holds_no_node_until_it_has_room_for_all() -> None:
    async with simulated(job_body(**NATIVE), starts=False) as world:
        world.nodes.room = 2
        world.operator.start()
        await world.settle()
        assert {"nodeName" in pod.body["spec"] for pod in world.cluster.pods.values()} == {False}
        assert condition(world)[0] == "NoRoom"
        world.nodes.room = 3
        await world.running()
        assert condition(world)[0] == "Placed"


async def test_a_group_that_somebody_deletes_is_created_again() -> None:
    async with simulated(job_body(**NATIVE), starts=False) as world:
        world.nodes.room = 2
        world.operator.start()
        await world.settle()
        world.cluster.server.patch(GROUP, {"metadata": {"finalizers": None}})
        world.cluster.remove("podgroups", "job")
        world.nodes.room = 3
        await world.until(lambda: world.phase == "Running", 400)
        assert count(world) == 3


async def test_a_cluster_without_the_api_gets_few_requests() -> None:
    bodies = [job_body(**NATIVE)]
    for number in range(4):
        more = job_body(**NATIVE)
        own = {"name": f"j{number}", "uid": f"u{number}"}
        bodies.append({**more, "metadata": {**more["metadata"], **own}})
    async with simulated(*bodies, starts=False) as world:
        world.line.faults.append(Fault("", "podgroups", 404, 1_000_000, message=NOT_SERVED))
        world.operator.start()
        await world.runs(600)
        # One for each job, and then one a minute for all of them.
        assert 10 <= len(requests(world)) <= 5 + 10
        assert world.cluster.pods == {}
        reason, message = condition(world)
        assert reason == "NotServed"
        assert "kubectl api-resources" in message
        assert [one for one in requests(world) if one != "GET"] == []
        world.line.faults.clear()
        await world.until(lambda: world.phase == "Running", 200)


async def test_an_api_that_disappears_after_the_read_causes_no_loop() -> None:
    async with simulated(job_body(**NATIVE), starts=False) as world:
        world.line.faults += [
            Fault("POST", "podgroups", 404, 1_000_000, message=NOT_SERVED),
            Fault("GET", "podgroups", 404, 1, message='podgroups "job" not found'),
            Fault("GET", "podgroups", 404, 1_000_000, message=NOT_SERVED),
        ]
        world.operator.start()
        await world.runs(120)
        assert len(requests(world)) <= 6
        assert condition(world)[0] == "NotServed"


async def test_without_permission_the_condition_quotes_the_api_error() -> None:
    async with simulated(job_body(**NATIVE), starts=False) as world:
        refusal = 'podgroups "job" is forbidden: no'
        world.line.faults.append(Fault("GET", "podgroups", 403, 1_000_000, message=refusal))
        world.operator.start()
        await world.runs(300)
        assert condition(world) == ("GroupRefused", refusal)
        assert len(requests(world)) <= 10


async def test_without_permission_a_cluster_without_the_api_is_recognized() -> None:
    """The chart grants no permission for a kind that the cluster does not serve."""
    async with simulated(job_body(**NATIVE), starts=False) as world:
        refusal = 'podgroups "job" is forbidden: no'
        world.line.faults.append(Fault("GET", "podgroups", 403, 1_000_000, message=refusal))
        world.line.unserved.add("podgroups")
        world.operator.start()
        await world.runs(150)
        assert condition(world)[0] == "NotServed"
        assert requests(world) == ["GET"] * 3


VOLCANO: dict[str, Any] = {"scheduling": {"engine": "Volcano", "queue": "team-a"}}


def member_count(world: World) -> int:
    return int(world.cluster.read("podgroups", "job")["spec"]["minMember"])


@pytest.mark.parametrize("engine", ["Volcano", "Coscheduling", "KAI"])
async def test_each_engine_with_an_object_costs_one_read_and_one_write(engine: str) -> None:
    async with simulated(job_body(scheduling={"engine": engine})) as world:
        await world.running()
        assert requests(world) == ["GET", "POST"]
        assert member_count(world) == 3
        assert {pod.group for pod in world.cluster.pods.values()} == {"job"}
        world.cluster.edit(suspend=True)
        await world.settle()
        assert world.cluster.names_of("podgroups") == set()
        world.cluster.edit(suspend=False)
        await world.running()
        (name,) = world.cluster.names_of("podgroups")
        assert {pod.group for pod in world.cluster.pods.values()} == {name}


async def test_yunikorn_costs_no_request() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        without = len(world.writes())
    async with simulated(job_body(scheduling={"engine": "YuniKorn"})) as world:
        await world.running()
        assert requests(world) == []
        assert len(world.writes()) == without


@pytest.mark.parametrize(("engine", "count"), [("Volcano", 3), ("Coscheduling", 2), ("KAI", 2)])
async def test_a_lost_rank_is_placed_after_a_success_with_each_engine(
    engine: str, count: int
) -> None:
    """Only Volcano counts the pod that has succeeded."""
    async with simulated(job_body(scheduling={"engine": engine})) as world:
        await world.running()
        first, other = world.cluster.pod("job-2"), world.cluster.pod("job-1")
        first.end(first.main, 0)
        world.cluster.report(first)
        await world.settle()
        world.cluster.delete(other)
        await world.settle()
        assert member_count(world) == count
        assert world.cluster.pod("job-1").process is not None


async def test_volcano_does_not_wait_for_a_succeeded_pod_that_is_gone() -> None:
    async with simulated(job_body(**VOLCANO)) as world:
        await world.running()
        first = world.cluster.pod("job-2")
        first.end(first.main, 0)
        world.cluster.report(first)
        await world.settle()
        world.cluster.delete(first)
        await world.settle()
        world.cluster.delete(world.cluster.pod("job-1"))
        await world.settle()
        assert member_count(world) == 2
        assert world.cluster.pod("job-1").process is not None


@pytest.mark.parametrize("engine", ["Volcano", "Coscheduling", "KAI"])
async def test_an_engine_whose_api_is_not_served_gets_one_request_a_minute(engine: str) -> None:
    async with simulated(job_body(scheduling={"engine": engine}), starts=False) as world:
        world.line.faults.append(Fault("", "podgroups", 404, 1_000_000, message=NOT_SERVED))
        world.operator.start()
        await world.runs(600)
        assert 9 <= len(requests(world)) <= 12
        assert condition(world)[0] == "NotServed"
        assert world.cluster.pods == {}


async def test_the_label_of_a_group_is_restored_with_the_labels_of_its_pod() -> None:
    async with simulated(job_body(scheduling={"engine": "Coscheduling"})) as world:
        await world.running()
        pod = world.cluster.pod("job-1")
        world.cluster.server.patch(
            pod.target, {"metadata": {"labels": dict.fromkeys(pod.body["metadata"]["labels"])}}
        )
        await world.settle()
        labels = world.cluster.pod("job-1").body["metadata"]["labels"]
        assert labels["scheduling.x-k8s.io/pod-group"] == "job"
