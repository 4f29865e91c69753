"""Somebody edits, or deletes, what the operator has made: it is repaired, or said; the job ends up whole."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from faults.conftest import Lanes
from faults.kube import Json, jobs, pods, until
from faults.lane import Lane

pytestmark = pytest.mark.apiserver

GROUP = "diengine.opendilab.org"
RANKS = 4
WHOLE_SECONDS = 60.0


@pytest.fixture
async def lane(lanes: Lanes) -> AsyncIterator[Lane]:
    async with lanes() as made:
        await made.apply("a", RANKS)
        await made.reaches("a", "Running")
        yield made


async def until_whole(lane: Lane) -> float:
    """Poll until all ranks are Ready under one true list, with all labels, and the job says so."""

    async def missing() -> str:
        found, status = await lane.pods("a"), await lane.status("a")
        ips = [found.get(f"a-{rank}", {}).get("status", {}).get("podIP") for rank in range(RANKS)]
        if sorted(found) != [f"a-{rank}" for rank in range(RANKS)] or None in ips:
            return f"{sorted(found)} {ips}; {lane.evidence()}"
        for rank in range(RANKS):
            meta = found[f"a-{rank}"]["metadata"]
            told = {key.removeprefix(f"{GROUP}/"): value for key, value in meta["annotations"].items()}
            wanted = {"node-ips": ",".join(map(str, ips)), "epoch": str(status["epoch"]), "num-nodes": str(RANKS)}
            if wrong := {key: told.get(key) for key in wanted if told.get(key) != wanted[key]}:
                return f"rank {rank} has {wrong}, not {wanted}"
            if meta["labels"].get(f"{GROUP}/rank") != str(rank) or "deletionTimestamp" in meta:
                return f"rank {rank}: {meta['labels']}"
        said = {c["type"]: c for c in status["conditions"]}
        return "" if said["PeersReady"]["status"] == "True" else f"{said['PeersReady']}"

    return await until("a is whole", missing, WHOLE_SECONDS)


FORGED: dict[str, Json] = {
    "another address list": {"annotations": {f"{GROUP}/node-ips": "10.9.9.9,10.9.9.8,10.9.9.7,10.9.9.6"}},
    "no address list": {"annotations": {f"{GROUP}/node-ips": None}},
    "a higher epoch": {"annotations": {f"{GROUP}/epoch": "99"}},
    "no epoch": {"annotations": {f"{GROUP}/epoch": None}},
    "an epoch of nonsense": {"annotations": {f"{GROUP}/epoch": "x"}},
    "another job's label": {"labels": {f"{GROUP}/job": "b"}},
    "another rank's label": {"labels": {f"{GROUP}/rank": "3"}},
    "not managed by us": {"labels": {"app.kubernetes.io/managed-by": None}},
    "no labels at all": {"labels": {"app.kubernetes.io/managed-by": None, f"{GROUP}/job": None, f"{GROUP}/rank": None}},
}


@pytest.mark.parametrize("patch", FORGED.values(), ids=FORGED)
async def test_what_is_forged_on_a_pod_is_repaired(lane: Lane, patch: dict[str, Any]) -> None:
    await lane.kube.patch(pods(lane.namespace, "a-1"), {"metadata": patch})
    await until_whole(lane)
    assert (await lane.status("a")).get("restarts", 0) == 0


async def test_a_pod_that_was_taken_from_us_is_never_touched_and_said(lane: Lane) -> None:
    await lane.kube.patch(pods(lane.namespace, "a-3"), {"metadata": {"ownerReferences": None}})
    before = (await lane.kube.get(pods(lane.namespace, "a-3")))["metadata"]["uid"]

    async def missing() -> str:
        said = {c["type"]: c for c in (await lane.status("a")).get("conditions", ())}
        return "" if said["PodsCreated"]["reason"] == "PodNameTaken" else f"{said['PodsCreated']}; {lane.evidence()}"

    await until("it is said", missing, 30)
    assert (await lane.kube.get(pods(lane.namespace, "a-3")))["metadata"]["uid"] == before
    await lane.kube.delete(pods(lane.namespace, "a-3"))
    await until_whole(lane)


async def test_pods_deleted_in_any_order_as_fast_as_possible(lane: Lane) -> None:
    dice = random.Random(7)
    for _ in range(40):
        await lane.kube.delete(pods(lane.namespace, f"a-{dice.randrange(RANKS)}"))
    waited = await until_whole(lane)
    print(f"\nMEASURED seconds from the last of 40 deletions until the job is whole: {waited:.1f}")
    assert (await lane.status("a")).get("restarts", 0) == 0
    assert (await lane.kube.get(jobs(lane.namespace, "a")))["status"]["phase"] == "Running"
