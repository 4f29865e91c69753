"""What released versions have written to DIJobs and pods on a real cluster: the current operator
understands it and changes no pod.
"""

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from samples.builders import NOW
from simulator.objects import Target
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

Body = dict[str, Any]

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = sorted(GOLDEN.glob("*/*.json"))
PLURALS = {"Pod": "pods", "Service": "services", "NetworkPolicy": "networkpolicies"}
# Creation times are adjusted, because they decide how long a pod has waited for a node.
SECONDS = 20.0

# Release 0.1.0 does not know these conditions.
HEALTH = ("Reconciling", "Stalled")
# Release 0.1.0 has left spec.replicas out of a job with tasks, whose scale has been the size of its
# last task since 0.2.0.
SIZED = {"tasks": [2]}
SCALED = ",diengine/task-name=collector"


def objects(file: Path) -> tuple[Body, list[Body]]:
    kept = json.loads(file.read_text())
    return kept["dijob"], kept["children"]


async def put(world: World, job: Body, children: list[Body]) -> None:
    """Store the objects as they were, at their time."""
    stamps = [
        each["lastTransitionTime"]
        for body in (job, *children)
        for each in body.get("status", {}).get("conditions", ())
    ]
    newest = max(datetime.fromisoformat(stamp) for stamp in stamps)
    await asyncio.sleep((newest - NOW).total_seconds() + 1)
    for plural, body in [("dijobs", job), *((PLURALS[each["kind"]], each) for each in children)]:
        meta = body["metadata"]
        world.cluster.server.put(Target(plural, meta["namespace"], meta["name"]), body)


def without_words(status: Body) -> Body:
    """Remove messages, which a later version may change, the number of processes, which is absent
    if only the program knows it (N1), and the conditions for GitOps tools, which 0.2.0 adds to jobs
    that are not healthy.
    """
    known = (each for each in status["conditions"] if each["type"] not in HEALTH)
    conditions = [{**each, "message": ""} for each in known]
    changed = {"message": "", "conditions": conditions, "parallelWorkers": None, "goodput": None}
    return {**status, **changed}


def with_size(status: Body) -> Body:
    """Return the status after spec.replicas has been written."""
    conditions = [{**each, "observedGeneration": 2} for each in status["conditions"]]
    scale = {"replicas": 2, "selector": status["selector"] + SCALED}
    return {**status, "observedGeneration": 2, "conditions": conditions, **scale}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
async def test_the_objects_of_a_release_cause_one_status_write_and_no_action(file: Path) -> None:
    job, children = objects(file)
    async with simulated(starts=False) as world:
        await put(world, job, children)
        world.operator.start()
        await world.operator_alone(SECONDS)
        status = world.cluster.read("dijobs", job["metadata"]["name"], job["metadata"]["namespace"])
        others = [each for each in world.writes() if each.target.sub != "status"]
        assert len(world.writes()) == len(others) + 1
        sizes = [each.body["spec"]["replicas"] for each in others if each.about("PATCH", "dijobs")]
        assert (sizes, len(others)) == (SIZED.get(file.stem, []), len(sizes))
        was = with_size(job["status"]) if sizes else job["status"]
        assert without_words(status["status"]) == without_words(was)
        assert world.operator.passes
        known = world.operator.children.pods
        assert len(known) == sum(each["kind"] == "Pod" for each in children)


@pytest.mark.parametrize("name", ["world", "named", "redis"])
async def test_a_lost_pod_of_a_release_is_recreated(name: str) -> None:
    """The recreation shows that the operator does observe these objects."""
    job, children = objects(next(each for each in FILES if each.stem == name))
    lost = next(each for each in children if each["metadata"]["name"] == f"{name}-1")
    async with simulated(starts=False) as world:
        await put(world, job, [each for each in children if each is not lost])
        world.operator.start()
        await world.operator_alone(SECONDS)
        (made,) = world.writes("POST", "pods")
        assert made.body["metadata"]["name"] == f"{name}-1"


LATER = {"type": "Foretold", "status": "True", "reason": "Seen", "message": "by a later version"}


async def test_fields_of_a_later_version_are_left_unchanged() -> None:
    """After a rollback, the operator writes only its own part."""
    job, children = objects(next(each for each in FILES if each.stem == "world"))
    status = job["status"]
    status |= {"foretold": {"rank": 1}, "phase": "Enlightened"}
    status["conditions"] += [{**LATER, "lastTransitionTime": status["startTime"]}]
    status["addressList"]["foretold"] = "yes"
    for each in children:
        each["metadata"].setdefault("annotations", {})["diengine.opendilab.org/foretold"] = "1"
    lost = next(each for each in children if each["metadata"]["name"] == "world-1")
    async with simulated(starts=False) as world:
        await put(world, job, [each for each in children if each is not lost])
        world.operator.start()
        await world.operator_alone(SECONDS)
        namespace = job["metadata"]["namespace"]
        now = world.cluster.read("dijobs", "world", namespace)["status"]
        assert now["phase"] != "Enlightened", "it has written the status"
        assert now["foretold"] == {"rank": 1}
        assert now["addressList"]["foretold"] == "yes"
        assert "Foretold" in {each["type"] for each in now["conditions"]}
        meta = world.cluster.read("pods", "world-2", namespace)["metadata"]
        assert meta["annotations"]["diengine.opendilab.org/foretold"] == "1"
