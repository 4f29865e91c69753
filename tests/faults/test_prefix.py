"""Twenty jobs of two to four ranks with room for three: the peer list always has ranks 0 to 2, and
the fourth joins later.
"""

import asyncio
from typing import Any

import pytest
from faults.lab.kube import Json, dijob, jobs, pods
from faults.lab.lane import Lane, Lanes

pytestmark = pytest.mark.apiserver

JOBS = 20
LIST = "diengine.opendilab.org/node-ips"
# The simulated nodes have 1,000 CPUs each (kwok_nodes.py).
REQUEST = {"requests": {"cpu": "300"}}


def pinned(namespace: str, name: str, node: str) -> Json:
    """Return a job of 2 to 4 ranks on one node that has room for three."""
    spec: dict[str, Any] = {"minReplicas": 2, "maxReplicas": 4, "gatherSeconds": 5}
    body = dijob(namespace, name, **spec)
    pod = body["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"kubernetes.io/hostname": node}
    pod["containers"][0]["resources"] = REQUEST
    return body


def listed_on(pod: Json) -> list[str]:
    """Return the addresses in a pod's copy of the peer list."""
    text = pod.get("metadata", {}).get("annotations", {}).get(LIST)
    return text.split(",") if text else []


async def until_listed(lane: Lane, names: list[str], size: int) -> float:
    """Poll until each job's peer list has `size` ranks, which must be the first ones and run. It
    must never have others.
    """

    async def missing() -> str:
        behind = []
        for name in names:
            found = await lane.pods(name)
            told = {n: listed_on(pod) for n, pod in found.items()}
            # The order in which pods get the list is random, but its content is not.
            listed = {int(n.rpartition("-")[2]): len(ips) for n, ips in told.items() if ips}
            assert all(rank < known for rank, known in listed.items()), f"{name}: {told}"
            if listed != dict.fromkeys(range(size), size):
                behind.append(f"{name}: {told}")
        return (
            "; ".join(behind[:3])
            and f"{len(behind)} jobs are not there yet: {'; '.join(behind[:3])}"
        )

    return await lane.until(f"{len(names)} jobs of {size}", missing, 60)


async def test_the_listed_ranks_are_always_the_first_ones(lanes: Lanes) -> None:
    async with lanes() as lane:
        nodes = sorted(node["metadata"]["name"] for node in await lane.kube.items("/api/v1/nodes"))
        names = [f"job{number}" for number in range(JOBS)]
        bodies = [
            pinned(lane.namespace, name, node) for name, node in zip(names, nodes, strict=False)
        ]
        assert len(bodies) == JOBS
        await asyncio.gather(*(lane.kube.create(jobs(lane.namespace), body) for body in bodies))
        begun = await until_listed(lane, names, 3)
        print(
            f"\nMEASURED seconds until {JOBS} jobs of 2 to 4 with room for 3 run (gatherSeconds:"
            f" 5): {begun:.1f}"
        )
        waited = await lane.until("all say who joins later", lambda: unsaid(lane, names), 100)
        print(f"MEASURED seconds from then until all say who joins later: {waited:.1f}")
        # A succeeded rank releases its capacity, which the fourth rank gets.
        done = {"metadata": {"annotations": {"test.dijob/exit": "0"}}}
        await asyncio.gather(
            *(lane.kube.patch(pods(lane.namespace, f"{name}-2"), done) for name in names)
        )
        joined = await until_joined(lane, names)
        print(
            "MEASURED seconds from the moment when there is room until the fourth has joined in"
            f" each: {joined:.1f}"
        )
        assert [(await lane.status(name)).get("renewals", 0) for name in names] == [0] * JOBS


async def unsaid(lane: Lane, names: list[str]) -> str:
    """Return the jobs that are not Running yet, with their missing ranks."""
    silent = []
    for name in names:
        status = await lane.status(name)
        said = {c["type"]: c["message"] for c in status.get("conditions", ())}
        wanted = ("3 of 4 ranks are running", "Running", "joining later: rank 3: Unschedulable")
        found = (said.get("Running"), status.get("phase"))
        if found != wanted[:2] or wanted[2] not in said.get("AddressesReady", ""):
            silent.append(f"{name}: {said}")
    return "; ".join(silent[:2])


async def until_joined(lane: Lane, names: list[str]) -> float:
    async def missing() -> str:
        told = {name: (await lane.pods(name)).get(f"{name}-3") or {} for name in names}
        late = [n for n, pod in told.items() if len(listed_on(pod)) != 4]
        return f"{len(late)} have no rank 3 in their list: {late[:3]}" if late else ""

    return await lane.until("the fourth ranks", missing, 90)
