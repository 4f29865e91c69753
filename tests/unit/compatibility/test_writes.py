"""The number of writes in the life of a job without an engine, a queue or a disruption budget. The
numbers were measured with an operator from before these features existed.
"""

from collections import Counter
from typing import Any

import pytest
from samples.builders import Body, job_body, tasks_body
from simulator.kubelet import SimPod
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

STATUS = "PATCH dijobs/status"
# For each part of its life, in its order: the writes of a job of three ranks.
LIFE: dict[str, dict[str, int]] = {
    "start": {"POST services": 1, "POST pods": 3, "PATCH pods": 3, STATUS: 2},
    "loss": {"POST pods": 1, "PATCH pods": 3, STATUS: 3},
    "suspension": {"DELETE pods": 3, STATUS: 2},
    "resumption": {"POST pods": 3, "PATCH pods": 3, STATUS: 3},
    "success": {STATUS: 1},
}


def more(**parts: dict[str, int]) -> dict[str, dict[str, int]]:
    """Return the life with additional writes."""
    return {name: dict(Counter(life) + Counter(parts.get(name, {}))) for name, life in LIFE.items()}


LIVES: dict[str, tuple[Body, dict[str, dict[str, int]]]] = {
    "a job": (job_body(replicas=3, minReplicas=1, maxReplicas=4), LIFE),
    # The PATCH of the job writes spec.replicas for autoscalers (docs/decisions/059).
    "tasks": (tasks_body(1, 2), more(start={"PATCH dijobs": 1})),
    "torch": (job_body(runtime="torch"), more(loss={"DELETE pods": 2, "POST pods": 2})),
    "redis": (
        job_body(messageQueue={"type": "redis"}),
        more(
            start={"POST networkpolicies": 1, "POST pods": 1, "POST services": 1},
            suspension={"DELETE pods": 1},
            resumption={"POST networkpolicies": 1, "POST pods": 1, "POST services": 1},
            success={"DELETE pods": 1},
        ),
    ),
}


def ranks(world: World) -> list[SimPod]:
    return [pod for pod in world.cluster.pods.values() if pod.name != "job-mq"]


def do(world: World, part: str) -> None:
    match part:
        case "loss":
            world.cluster.remove("pods", ranks(world)[1].name)
        case "suspension" | "resumption":
            world.cluster.edit(suspend=part == "suspension")
        case "success":
            for pod in ranks(world):
                pod.end(pod.main, 0)
                world.cluster.report(pod)


@pytest.mark.parametrize(("body", "expected"), LIVES.values(), ids=LIVES)
async def test_a_job_without_an_engine_costs_no_additional_write(
    body: Body, expected: dict[str, Any]
) -> None:
    async with simulated(body) as world:
        known, made = 0, dict[str, dict[str, int]]()
        for part in LIFE:
            do(world, part)
            await world.settle()
            await world.runs(60)
            calls = world.writes()[known:]
            known += len(calls)
            parts = (
                (call.method, "/".join(filter(None, (call.target.plural, call.target.sub))))
                for call in calls
            )
            made[part] = dict(Counter(map(" ".join, parts)))
        assert made == expected
        assert world.phase == "Succeeded"
