"""Recipes about users: jobs and namespaces that are deleted, hostile objects, and many jobs."""

import signal
import time
from contextlib import AsyncExitStack

from faults.hostile.tenants import RANKS, deep_reading, two
from faults.lab.channel import open_channel
from faults.lab.kube import dijob, jobs, make_namespace
from faults.lab.load import quiet
from faults.lab.restarts import Crowd
from faults.lab.running import Operator
from faults.lab.waits import running
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.stage import Stage

OBJECTS, CROWD = 100, 1000
GONE_SECONDS = 120.0


async def without_operator(stage: Stage) -> Outcome:
    """Delete a job without an operator. The garbage collector suffices, because there is no
    finalizer.
    """
    async with stage.lane() as lane:
        await running(lane, "a", "b")
        await lane.operator.kill()
        begin = time.monotonic()
        await lane.remove("a")

        async def left() -> str:
            return ", ".join(await lane.pods("a"))

        # The garbage collector discovers new kinds only every 30 s.
        await lane.until("all pods gone", left, GONE_SECONDS)
        took = time.monotonic() - begin
        await lane.operator.start()
        await lane.watching()
        await running(lane, "c")
        counts = {name: lane.census.of(name) for name in "abc"}
        wrong = () if counts == dict.fromkeys("abc", 4) else (f"pods made: {counts}",)
        return Outcome(took, "the next operator re-creates nothing", wrong)


async def its_namespace(stage: Stage) -> Outcome:
    """Delete the namespace that contains the Lease, the jobs and the operator. The operator's pod
    gets a SIGTERM.
    """
    async with stage.lane() as lane:
        await lane.operator.kill()
        lane.operator.arguments += (f"--lease={lane.namespace}/dijob", "--identity=a")
        await lane.operator.start()
        await lane.watching()
        await running(lane, "a", "b")
        begin = time.monotonic()
        await lane.kube.delete(f"/api/v1/namespaces/{lane.namespace}")
        # The operator is a process here. In a cluster, its pod would get the SIGTERM when the
        # namespace is deleted.
        lane.operator.signal(signal.SIGTERM)
        code = await lane.operator.ended()
        ended = time.monotonic() - begin

        async def there() -> str:
            return (
                ""
                if await lane.kube.find(f"/api/v1/namespaces/{lane.namespace}") is None
                else (f"pods {sorted((await lane.pods('a')) | (await lane.pods('b')))}")
            )

        await lane.until("the namespace is gone", there, GONE_SECONDS)
        wrong = [] if code == 0 else [f"the operator exited with {code}"]
        # No pod should have been re-created during the deletion.
        if (made := lane.census.added.total()) != 2 * 4:
            wrong.append(f"{made} pods were made, not 8")
        seen = f"the operator exited with {code} after {ended:.1f} s"
        return Outcome(time.monotonic() - begin, seen, tuple(wrong))


async def hostile(stage: Stage) -> Outcome:
    """Send hostile objects. Another tenant's running job is not disturbed, and a new job of this
    other tenant starts.
    """
    with deep_reading():
        async with two(stage.plane, stage.kube, stage.own_folder()) as tenants:
            await stage.kube.create(jobs(tenants.ours), dijob(tenants.ours, "a", RANKS))
            await tenants.reaches("a", "Running")
            before = await tenants.ranks()
            await tenants.flood(OBJECTS, stage.seed)
            dealt = await tenants.until_calm()
            started = await tenants.start("after")
            touched = [n for n, rank in (await tenants.ranks()).items() if rank != before.get(n)]
            # A quarantined object means that an unexpected exception was raised.
            aside = await tenants.operator.metric("dijob_quarantined")
            wrong = [f"{name} is not as it was" for name in touched]
            if died := tenants.operator.died():
                wrong.append(died)
            if aside:
                wrong.append(f"{aside:g} objects are quarantined: {tenants.operator.tail()}")
            seen = (
                f"{tenants.stored} stored, {tenants.refused.total()} rejected, processed in"
                f" {dealt:.0f} s; a new job of another tenant was Running after {started:.1f} s"
            )
            return Outcome(len(wrong), seen, tuple(wrong))


async def crowd(stage: Stage) -> Outcome:
    """Start a new operator while a thousand jobs run."""
    namespace = f"crowd-{stage.seed}"
    await make_namespace(stage.kube, namespace)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(stage.kube.delete, f"/api/v1/namespaces/{namespace}")
        options: tuple[str, ...] = ()
        if stage.channel:
            way = open_channel(stage.kube.access, namespace)
            options = (await stack.enter_async_context(way)).options()
        log = stage.own_folder() / "log"
        operator = Operator(stage.plane.kubeconfig, log, (namespace,), options)
        stack.push_async_callback(operator.kill)
        many = Crowd(stage.kube, namespace, operator, CROWD, stage.channel)
        await many.fill()
        # The controllers are still working on the copies. This work would slow down the operator's
        # start.
        await quiet(stage.plane)
        begin = time.monotonic()
        found = await many.restart(stage.plane.audit_log, 0)
        whole = time.monotonic() - begin
        wrong = tuple(f"about a job that needed nothing: {write}" for write in found.writes[:5])
        seen = (
            f"all jobs were reconciled after {whole:.1f} s, {found.cpu:.1f} s of CPU, peak RSS"
            f" {found.peak:.0f} MB, {len(found.writes)} unnecessary writes"
        )
        return Outcome(found.seconds, seen, wrong)


RECIPES = (
    Recipe(
        "T16",
        "hostile",
        f"a tenant sends {OBJECTS} objects of all kinds, generated from the CRD's schema",
        "operator exits, quarantined objects, affected ranks of other tenants",
        0,
        hostile,
        over_channel=False,
    ),
    Recipe(
        "T20",
        "deleted-alone",
        "a job is deleted while no operator runs",
        "seconds until its pods are gone",
        60,
        without_operator,
    ),
    Recipe(
        "T20",
        "namespace",
        "a namespace is deleted; it contains jobs, the Lease and the operator",
        "seconds until it is gone",
        60,
        its_namespace,
    ),
    Recipe(
        "T19",
        "crowd",
        f"the operator starts when {CROWD} jobs with {CROWD * RANKS} pods already exist",
        "seconds to a new job's first pod",
        10,
        crowd,
        alone=True,
    ),
)
