"""Recipes about etcd and the apiserver. These recipes affect all namespaces, so each of them runs
alone.
"""

import asyncio
import shutil
import signal
import time
from functools import partial

from cluster import Cluster
from cluster.process import recorded
from cluster.waiting import until_async

from faults.lab.bulk import for_all
from faults.lab.kube import pods
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.served import API, CACHES, RANKS, RUN_SECONDS, Served, served
from faults.simulated_nodes.stage import Stage

STORE = "etcd"
MANY = 100
# On SIGTERM the apiserver first answers the requests that it has received.
GENTLE_SECONDS = 90.0


async def lose(one: Served, name: str) -> None:
    """Delete a pod without a grace period. Otherwise kwok (v0.6) would have to delete it. If the
    apiserver were down at that moment, kwok would not try again for several minutes.
    """
    await one.kube.delete(pods(one.namespace, f"{name}-1"), gracePeriodSeconds=0)


def _restart(plane: Cluster, name: str) -> None:
    plane.stop_component(name)
    plane.start_component(name)


def _seen(one: Served, took: float) -> str:
    ended = f"; operator exit codes: {one.codes}" if one.codes else ""
    return f"all jobs were Running after {took:.1f} s{ended}"


async def first_pod(one: Served, begin: float) -> float:
    """Apply job "b", and return the seconds from `begin` to its first pod."""
    await one.apply("b")

    async def missing() -> str:
        return "" if await one.kube.find(pods(one.namespace, "b-0")) else "no pod of b"

    await until_async("first pod of b", missing, RUN_SECONDS, one.evidence)
    return time.monotonic() - begin


async def defragmented(stage: Stage) -> Outcome:
    """Defragment etcd, which does not answer requests during the defragmentation."""
    async with served(stage, "defrag") as one:
        begin = time.monotonic()
        # The new job is created at the same time, and has to wait for etcd.
        task = asyncio.create_task(one.etcd("maintenance/defragment", {}))
        first = await first_pod(one, begin)
        await task
        return Outcome(first, _seen(one, await one.run(["a", "b"])), one.twice())


async def down(seconds: float, stage: Stage) -> Outcome:
    """Kill the apiserver with kill -9, and start it again later."""
    async with served(stage, f"down-{seconds:.0f}") as one:
        await asyncio.to_thread(one.plane.stop_component, API)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(one.plane.start_component, API)
        await one.ready()
        begin = time.monotonic()
        first = await first_pod(one, begin)
        return Outcome(first, _seen(one, await one.run(["a", "b"])), one.twice())


async def compacted(stage: Stage) -> Outcome:
    """Compact etcd while the apiserver is down, so that no watch can continue from its version."""
    async with served(stage, "compact") as one:
        await lose(one, "a")
        await asyncio.to_thread(one.plane.stop_component, API)
        status = await one.etcd("maintenance/status", {})
        revision = status["header"]["revision"]
        await one.etcd("kv/compaction", {"revision": revision, "physical": True})
        await asyncio.to_thread(one.plane.start_component, API)
        await one.ready()
        # The scheduler of 1.37 exits ("Scheduler cache is corrupted") if its new list has a
        # different pod under a name that it already knows. In a real cluster, a kubelet
        # would restart the scheduler.
        await asyncio.to_thread(_restart, one.plane, "kube-scheduler")
        begin = time.monotonic()
        first = await first_pod(one, begin)
        whole = await one.run(["a", "b"])
        # a-1 was deleted by this recipe, so it was created twice.
        wrong = tuple(word for word in one.twice() if not word.startswith("a-1 "))
        return Outcome(first, _seen(one, whole), wrong)


async def restarted_in_a_start(stage: Stage) -> Outcome:
    """Kill the apiserver with kill -9 when a third of the pods exist."""
    async with served(stage, "start") as one:
        names = [f"j{number}" for number in range(MANY)]
        begin = time.monotonic()
        await for_all(names, one.apply)

        async def few() -> str:
            made = len(await one.kube.items(pods(one.namespace)))
            return "" if made >= MANY * RANKS / 3 else f"{made} pods"

        await until_async("a third of the pods", few, RUN_SECONDS, one.evidence)
        await asyncio.to_thread(_restart, one.plane, API)
        await one.ready()
        back = time.monotonic()
        await one.run(names)
        seen = (
            f"all {MANY} were Running {time.monotonic() - back:.1f} s after the apiserver was back"
        )
        ended = f"; operator exit codes: {one.codes}" if one.codes else ""
        return Outcome(time.monotonic() - begin, seen + ended, one.twice())


async def restored(stage: Stage) -> Outcome:
    """Restore an older state of etcd. This removes a job, undoes two losses, and sets resource
    versions back.
    """
    async with served(stage, "restore") as one:
        state = one.plane.state
        # This is the state to which etcd is restored later.
        copy = stage.own_folder() / STORE
        # The copy must show a single moment, so etcd is stopped while its files are copied.
        pid = recorded(state)[STORE].pid
        one.plane.signal_component(STORE, signal.SIGSTOP)
        try:
            await asyncio.to_thread(shutil.copytree, state / STORE, copy)
        finally:
            one.plane.signal_component(STORE, signal.SIGCONT)
        assert recorded(state)[STORE].pid == pid
        await _history(one)
        await asyncio.to_thread(_put_back, one, copy)
        await one.ready()
        # kwok (v0.6) does not take over nodes whose Leases belong to an earlier kwok process.
        await one.kube.delete("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
        for name in CACHES:
            await asyncio.to_thread(_restart, one.plane, name)
        begin = time.monotonic()
        # A loss after the restore: its events have versions that the operator has already seen.
        await one.kube.delete(pods(one.namespace, "a-2"))
        noticed = await _healed(one, begin)
        await first_pod(one, begin)
        whole = await one.run(["a", "b"])
        wrong = [] if await one.status("later") == {} else ["the undone job exists"]
        # The operator has to exit: its caches are from a future that no longer exists.
        if not one.codes:
            wrong.append("the operator did not notice the restore and kept running")
        return Outcome(noticed, _seen(one, whole), tuple(wrong))


async def _history(one: Served) -> None:
    """Create the history that the restore undoes: another job, and two losses."""
    await one.apply("later")
    await one.run(["a", "later"])
    for _ in range(2):
        await lose(one, "a")
        number = (await one.status("a"))["listNumber"]

        async def renewed(before: int = number) -> str:
            status = await one.status("a")
            return "" if status["listNumber"] > before else f"revision {status['listNumber']}"

        await until_async("a new peer list", renewed, RUN_SECONDS, one.evidence)
        await one.run(["a"])


def _put_back(one: Served, copy: object) -> None:
    # A graceful stop: watches end without an error, as when an administrator restores etcd.
    one.plane.stop_component(API, signal.SIGTERM, GENTLE_SECONDS)
    one.plane.stop_component(STORE)
    shutil.rmtree(one.plane.state / STORE)
    shutil.copytree(str(copy), one.plane.state / STORE)
    for name in (STORE, API):
        one.plane.start_component(name)
    one.plane.plane.wait_ready()


async def _healed(one: Served, begin: float) -> float:
    """Return the seconds from `begin` until the job has recovered from the loss of a-2."""

    async def missing() -> str:
        status = await one.status("a")
        seen = (status.get("listNumber"), status.get("phase"), status.get("readyReplicas"))
        found = await one.kube.find(pods(one.namespace, "a-2"))
        return "" if found and seen[0] == 2 and seen[1:] == ("Running", RANKS) else str(seen)

    await until_async("a-2 is back", missing, RUN_SECONDS, one.evidence)
    return time.monotonic() - begin


FIRST = "seconds from the apiserver's return to a new job's first pod"
RECIPES = (
    Recipe(
        "etcd",
        "defragmented",
        "etcd is defragmented",
        "seconds to a new job's first pod",
        10,
        defragmented,
        alone=True,
    ),
    Recipe(
        "T8",
        "down-5",
        "kill -9 of the apiserver, which stays down for 5 s",
        FIRST,
        15,
        partial(down, 5),
        alone=True,
    ),
    Recipe(
        "T8",
        "down-90",
        "kill -9 of the apiserver, which stays down for 90 s",
        FIRST,
        15,
        partial(down, 90),
        alone=True,
    ),
    Recipe(
        "T3",
        "compacted",
        "etcd is compacted while the apiserver is down",
        FIRST,
        15,
        compacted,
        alone=True,
    ),
    Recipe(
        "etcd",
        "start",
        f"kill -9 of the apiserver while {MANY} jobs start",
        f"seconds until all {MANY} are Running",
        180,
        restarted_in_a_start,
        alone=True,
    ),
    Recipe(
        "etcd",
        "restored",
        "etcd is restored to an older state, so resource versions go backwards; the"
        " apiserver, the controllers and kwok restart",
        "seconds to recover from a loss after that",
        90,
        restored,
        alone=True,
    ),
)
