"""Jobs without enough capacity, in a simulated cluster: what they keep, and that all of them
succeed.
"""

import random

import pytest
from samples.builders import Body, job_body
from simulator.cluster import Cluster, Nodes
from simulator.simulated import World, simulated


class AnyOrder(Nodes):
    """The scheduler takes the pods that wait in any order."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster)
        self._chance = random.Random(seed)

    def work(self) -> None:
        pods = list(self._cluster.pods.items())
        self._chance.shuffle(pods)
        self._cluster.pods = dict(pods)
        super().work()


async def all_succeed(world: World, rooms: int, seed: int, *jobs: str) -> set[str]:
    """Run jobs of four ranks on this many nodes until all have succeeded. Return the jobs that have
    released capacity.
    """
    world.nodes = AnyOrder(world.cluster, seed)
    world.nodes.room = rooms
    for name in jobs:
        body = job_body(replicas=4, scheduleTimeoutSeconds=30, ttlSecondsAfterFinished=0)
        body["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
        world.cluster.apply(body)
    left, gave = set(jobs), set[str]()

    def ended() -> bool:
        for name in tuple(left):
            if world.cluster.gone(name):
                left.discard(name)
            elif world.cluster.job(name).status.given_back:
                gave.add(name)
            elif world.cluster.job(name).status.phase == "Running":
                for pod in world.cluster.pods.values():
                    if pod.name.startswith(name) and pod.main.state == "running":
                        pod.end(pod.main, 0)
        return not left

    await world.until(ended, 900)
    return gave


@pytest.mark.virtual_time
@pytest.mark.parametrize("jobs", [("left", "right"), ("left", "middle", "right")])
@pytest.mark.parametrize("rooms", [4, 5, 6])
async def test_jobs_that_each_hold_a_part_of_the_capacity_all_succeed(
    rooms: int, jobs: tuple[str, ...]
) -> None:
    """C19: pods without a node stay and take the capacity that another job, or their own, has
    released.
    """
    gave = set[str]()
    for seed in range(3):
        async with simulated() as world:
            gave |= await all_succeed(world, rooms, seed, *jobs)
    assert gave


@pytest.mark.virtual_time
@pytest.mark.parametrize("elastic", [{}, {"minReplicas": 2, "maxReplicas": 4}])
async def test_a_pod_without_a_node_waits_until_its_node_comes(elastic: dict[str, int]) -> None:
    """C19: a cluster autoscaler adds nodes for the pods that it sees."""
    size: Body = {"replicas": 3, "scheduleTimeoutSeconds": 30, **elastic}
    async with simulated() as world:
        world.nodes.room = 1 if elastic else 2
        world.cluster.apply(job_body(**size))
        await world.runs(20)
        before = set(world.cluster.pods)
        waiting = {uid for uid, pod in world.cluster.pods.items() if pod.homeless}
        assert len(waiting) == 3 - world.nodes.room
        await world.runs(400)
        assert {uid for uid, pod in world.cluster.pods.items() if pod.homeless} == waiting
        world.nodes.room = 3
        await world.until(lambda: world.phase == "Running", 60)
        assert set(world.cluster.pods) == before
