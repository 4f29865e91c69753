"""Recipes about nodes simulated by kwok: a node becomes NotReady or is deleted, a pod is evicted,
programs fail.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import yaml
from cluster.kwok_nodes import NOT_READY, nodes

from faults.lab.crashes import quiet
from faults.lab.ends import exits
from faults.lab.kube import jobs, pods
from faults.lab.lane import Lane
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.stage import Stage

RANKS, FAILURES = 4, 8
WHOLE = "seconds until all ranks are Ready"
NODES = "/api/v1/nodes"
EXISTS = {"operator": "Exists"}
# Kubernetes' default is 300 s.
TOLERATED_SECONDS = 5
BRIEF = [
    {"key": f"node.kubernetes.io/{state}", "effect": "NoExecute", **EXISTS}
    | {"tolerationSeconds": TOLERATED_SECONDS}
    for state in ("not-ready", "unreachable")
]
GONE_SECONDS = 150.0


def wholeness(lane: Lane, job: str, before: dict[str, str]) -> Callable[[], Awaitable[str]]:
    """Return a probe: "" when the ranks with these uids have been replaced and all ranks run."""

    async def missing() -> str:
        found, status = await lane.pods(job), await lane.status(job)
        if sorted(found) != [f"{job}-{rank}" for rank in range(RANKS)]:
            return str(sorted(found))
        if old := [n for n, uid in before.items() if found[n]["metadata"]["uid"] == uid]:
            return f"still there: {old}"
        peers = (await lane.condition(job, "PeersReady")).get("status")
        seen = (status.get("phase"), status.get("readyReplicas"), peers)
        return "" if seen == ("Running", RANKS, "True") else str(seen)

    return missing


async def renewed_once(lane: Lane, job: str, lost: int) -> tuple[str, ...]:
    """Describe what is wrong after `lost` ranks were lost at the same time: too few pods were
    created, failures were counted, or the number of ranks is wrong.
    """
    await quiet(lane)
    status, made = await lane.status(job), lane.census.of(job)
    wrong = []
    if made < RANKS + lost:
        wrong.append(f"{made} pods were made, {RANKS} and {lost}")
    if status.get("restarts", 0):
        wrong.append(f"{status['restarts']} counted failures")
    if len(pods := await lane.pods(job)) != RANKS:
        wrong.append(f"ranks {sorted(pods)}")
    return tuple(wrong)


async def lost(fault: Callable[[Lane, str, str], Awaitable[None]], stage: Stage) -> Outcome:
    """Apply a fault to rank 1's node or pod, and measure the time until all ranks are Ready."""
    async with stage.lane() as lane, own_nodes(lane, "a"):
        found = await lane.pods("a")
        node = found["a-1"]["spec"]["nodeName"]
        hit = {n: p["metadata"]["uid"] for n, p in found.items() if p["spec"]["nodeName"] == node}
        # A node may have several ranks of the job, and all of them are lost with it. An eviction
        # affects only one pod.
        concerned = {"a-1": hit["a-1"]} if fault is evict else hit
        await fault(lane, "a-1", node)
        begin = time.monotonic()
        await lane.until("whole", wholeness(lane, "a", concerned), GONE_SECONDS)
        took = time.monotonic() - begin
        wrong = await renewed_once(lane, "a", len(concerned))
        renewals = (await lane.status("a")).get("renewals", 0)
        seen = f"{lane.census.of('a')} pods created, {renewals} re-rendezvous, no counted failure"
        return Outcome(took, seen, wrong)


async def not_ready(lane: Lane, pod: str, node: str) -> None:
    await lane.kube.patch(f"{NODES}/{node}", {"metadata": {"annotations": {NOT_READY: "true"}}})


async def delete_node(lane: Lane, pod: str, node: str) -> None:
    await lane.kube.delete(f"{NODES}/{node}")


async def evict(lane: Lane, pod: str, node: str) -> None:
    # This evicts the pod as `kubectl drain` does, so the apiserver sets the condition
    # DisruptionTarget.
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    await lane.kube.create(pods(lane.namespace, pod) + "/eviction", body)


@asynccontextmanager
async def own_nodes(lane: Lane, job: str) -> AsyncIterator[None]:
    """Run a job on nodes that run nothing else, so that their faults do not affect other rows."""
    # Three nodes, so that lost pods can be replaced on another node.
    names = [f"{lane.namespace}-{number}" for number in range(3)]
    # The taint keeps the pods of other recipes away from these nodes.
    label, taint = {"dijob-faults": lane.namespace}, {"key": "dijob-faults", "effect": "NoSchedule"}
    for name in names:
        body = yaml.safe_load(nodes((name,)))
        body["metadata"]["labels"] |= label
        await lane.kube.create(NODES, {**body, "spec": {"taints": [taint]}})
    try:
        await lane.until("nodes", lambda: _tainted(lane, names))
        made = lane.body(job, RANKS)
        where = {"nodeSelector": label, "tolerations": [{"key": "dijob-faults"} | EXISTS, *BRIEF]}
        made["spec"]["template"]["spec"] |= where
        await lane.kube.create(jobs(lane.namespace), made)
        await lane.reaches(job, "Running")
        yield
    finally:
        for name in names:
            await lane.kube.delete(f"{NODES}/{name}")


async def _tainted(lane: Lane, names: list[str]) -> str:
    """Return the taints of nodes that accept no pods yet."""
    found = [await lane.kube.get(f"{NODES}/{name}") for name in names]
    return " ".join(str(one["spec"]["taints"]) for one in found if len(one["spec"]["taints"]) > 1)


async def failures(stage: Stage) -> Outcome:
    """Make programs of random ranks fail, one after another, while the jobs run."""
    dice, names = stage.dice("failures"), ("a", "b", "c")
    async with stage.lane() as lane:
        for name in names:
            await lane.apply(name, RANKS, backoffLimit=FAILURES)
        for name in names:
            await lane.reaches(name, "Running")
        begin = time.monotonic()
        for _ in range(FAILURES):
            # One after another, because failures that are found together may count only once.
            job, rank = dice.choice(names), dice.randrange(RANKS)
            found = (await lane.pods(job))[f"{job}-{rank}"]
            await exits(lane, f"{job}-{rank}", dice.randrange(1, 128), 0)
            uid = {f"{job}-{rank}": found["metadata"]["uid"]}
            await lane.until("whole", wholeness(lane, job, uid), 90)
        took = time.monotonic() - begin
        await quiet(lane)
        charged = sum([(await lane.status(name)).get("restarts", 0) for name in names])
        seen = (
            f"{FAILURES} failures, {charged} counted, recovery after {took / FAILURES:.1f} s each"
        )
        return Outcome(abs(charged - FAILURES), seen)


RECIPES = (
    Recipe(
        "T14",
        "not-ready",
        f"a rank's node becomes NotReady (kwok stage); pods tolerate it for {TOLERATED_SECONDS} s",
        WHOLE,
        60,
        partial(lost, not_ready),
    ),
    Recipe(
        "T14",
        "node-deleted",
        "a rank's node is deleted; the pod garbage collector deletes its pods",
        WHOLE,
        120,
        partial(lost, delete_node),
    ),
    Recipe(
        "T14",
        "evicted",
        "a rank is evicted through the eviction API",
        WHOLE,
        15,
        partial(lost, evict),
    ),
    Recipe(
        "T14",
        "failures",
        f"the programs of {FAILURES} random ranks of three jobs fail",
        "failures that are not counted exactly once",
        0,
        failures,
    ),
)
