"""How long jobs take to start on 50 pretended nodes, and what that costs: two bare clients (the
floors), the operator with each addressing, and JobSet where JOBSET_BIN names its program, in turn
in one run: python bench/start.py.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple, Protocol

import goals
from cluster import Cluster
from cluster.process import recorded
from cluster.waiting import until_async
from faults.audit import OPERATOR, Audit
from faults.bulk import for_all
from faults.kube import Access, Kube, KubeError, dijob, jobs, make_namespace, pods, services
from faults.running import Operator, Usage, usage_of
from floor import Floor, Kind, size_of
from jobset import AGENT, controller, jobsets, start_jobsets
from measured import HEAD, Result, Shape, Starts, cpu_table, writes_table
from planes import control_plane

NAME = "bench"
LIMIT_SECONDS = 300
REST_SECONDS = 2.0
# The operator, by what it is told: how ranks are addressed, and more of its arguments.
OPERATORS = {
    "IP": ("IP", ()),
    "IP, image volume": ("IP", ("--launcher-delivery=ImageVolume",)),
    "Hostname": ("Hostname", ()),
}
# The variable that names JobSet's program (bin/manager in a checkout).
JOBSET = "JOBSET_BIN"


def plane_cpu(cluster: Cluster) -> Counter[str]:
    """CPU seconds that each process of the control plane, and kwok, has used so far."""
    found = recorded(cluster.state)
    return Counter({name: usage_of(process.pid).cpu for name, process in found.items()})


async def start_jobs(kube: Kube, namespace: str, shape: Shape, **spec: str) -> Starts:
    """Create the jobs, and return once every one is Running."""
    version = (await kube.get(jobs(namespace)))["metadata"]["resourceVersion"]
    starts = Starts()

    async def create(number: int) -> None:
        # replicas is what the operator would add: `kubectl scale` needs it.
        body = dijob(namespace, f"job{number}", shape.ranks, service="Auto", **spec)
        body["spec"]["replicas"] = shape.ranks
        starts.creates(f"job{number}")
        await kube.create(jobs(namespace), body)

    creating = asyncio.create_task(for_all(range(shape.jobs), create))
    async for event in kube.follow(jobs(namespace), version):
        body = event["object"]
        if (body.get("status") or {}).get("phase") == "Running":
            starts.runs(body["metadata"]["name"])
        if len(starts.ran) == shape.jobs:
            break
    await creating
    return starts


async def clear(kube: Kube, namespace: str) -> None:
    """Remove what a run has made, and wait until the control plane has come to rest."""
    for path in (jobs(namespace), jobsets(namespace), services(namespace), pods(namespace)):
        await kube.delete(path)

    async def left() -> str:
        count = len(await kube.items(pods(namespace) + "?limit=50"))
        return f"{count} pods or more" if count else ""

    await until_async("pods gone", left, LIMIT_SECONDS)
    await kube.delete(f"/api/v1/namespaces/{namespace}")


async def until_listed(operator: Operator) -> None:
    """Wait until an operator has all its lists."""

    async def missing() -> str:
        lists = await operator.metric("dijob_relists_total")
        return "" if lists >= 2 else f"{lists:g} of 2"

    await until_async("the operator's lists", missing, 60, operator.evidence)


async def until_served(kube: Kube) -> None:
    """Wait until the apiserver has listed DIJobs for two seconds: a new CRD's storage begins more
    than once.
    """
    listed = 0

    async def missing() -> str:
        nonlocal listed
        try:
            await kube.get(jobs("default"))
        except KubeError as error:
            listed = 0
            return str(error)
        listed += 1
        return "" if listed >= 20 else "not for long enough"

    await until_async("DIJobs are served", missing, 60)


async def race_floor(
    cluster: Cluster, kube: Kube, shape: Shape, namespace: str, kind: Kind = Kind.GATED
) -> Result:
    """A floor."""
    await make_namespace(kube, namespace)
    floor, before = Floor(kube, namespace, shape.jobs, shape.ranks, kind), plane_cpu(cluster)
    starts = await asyncio.wait_for(floor.run(), LIMIT_SECONDS)
    result = Result(starts, plane_cpu(cluster) - before, size=await size_in(kube, namespace))
    await clear(kube, namespace)
    return result


async def race_operator(
    cluster: Cluster, kube: Kube, shape: Shape, namespace: str, name: str
) -> Result:
    """An operator that was started for this run alone."""
    await make_namespace(kube, namespace)
    log = Path(tempfile.gettempdir()) / f"{namespace}.log"
    addressing, arguments = OPERATORS[name]
    async with Operator(cluster.kubeconfig, log, arguments=arguments) as operator:
        await until_listed(operator)
        starting = start_jobs(kube, namespace, shape, addressing=addressing)
        result = await measured_start(
            cluster, kube, Entrant(operator, OPERATOR, namespace), starting
        )
    log.unlink()
    await clear(kube, namespace)
    return result


async def race_jobset(cluster: Cluster, kube: Kube, shape: Shape, namespace: str) -> Result:
    """JobSet, with a controller of its own for this run. A start ends when the pods run: what its
    own status then says takes a little longer.
    """
    await make_namespace(kube, namespace)
    async with controller(Path(os.environ[JOBSET]), cluster) as process:
        starting = start_jobsets(kube, namespace, shape)
        result = await measured_start(cluster, kube, Entrant(process, AGENT, namespace), starting)
        await clear(kube, namespace)
    return result


class Process(Protocol):
    """Whose CPU and memory are measured."""

    def usage(self) -> Usage: ...


class Entrant(NamedTuple):
    """A process that starts jobs, what its user agent begins with, and where the jobs are."""

    process: Process
    agent: str
    namespace: str


async def measured_start(
    cluster: Cluster, kube: Kube, entrant: Entrant, starting: Awaitable[Starts]
) -> Result:
    """One start, and what it costs. The process' CPU is without its own start, and with what it
    does in the seconds after the last job runs.
    """
    before, plane = entrant.process.usage(), plane_cpu(cluster)
    audit = Audit(cluster.audit_log)
    starts = await asyncio.wait_for(starting, LIMIT_SECONDS)
    plane = plane_cpu(cluster) - plane
    await asyncio.sleep(REST_SECONDS)
    used, size = entrant.process.usage(), await size_in(kube, entrant.namespace)
    writes = audit.count(entrant.namespace, entrant.agent)
    return Result(starts, plane, used.cpu - before.cpu, used.peak, size, writes)


async def size_in(kube: Kube, namespace: str) -> int:
    """Bytes of a pod of this namespace that runs."""
    return size_of((await kube.items(pods(namespace) + "?limit=1"))[0])


async def race(cluster: Cluster, shape: Shape, runs: int) -> dict[str, Result]:
    """All entrants in turn, so that all see the same machine: each one's run of median seconds. A
    run of each with 5 jobs comes first: caches are warm then, and CRDs served.
    """
    found: dict[str, list[Result]] = {}
    async with Kube(Access.of(cluster.kubeconfig)) as kube:
        await until_served(kube)
        for number in range(runs + 1):
            now = shape if number else Shape(5, shape.ranks)
            suffix = f"{now}-{number}-{int(time.time())}"
            for name in entrants():
                namespace = f"{name.lower().replace(', ', '-').replace(' ', '-')}-{suffix}"
                result = await race_one(cluster, kube, now, name, namespace)
                if number:
                    found.setdefault(name, []).append(result)
                    print(f"# {number}: {result.row(now, name)}", flush=True)
    return {name: _median(results) for name, results in found.items()}


def entrants() -> list[str]:
    """Who takes part."""
    return [*map(str, Kind), *OPERATORS, *(["JobSet"] if JOBSET in os.environ else [])]


async def race_one(cluster: Cluster, kube: Kube, shape: Shape, name: str, namespace: str) -> Result:
    """One run of one entrant."""
    if name == "JobSet":
        return await race_jobset(cluster, kube, shape, namespace)
    if name in OPERATORS:
        return await race_operator(cluster, kube, shape, namespace, name)
    return await race_floor(cluster, kube, shape, namespace, Kind(name))


def _median(results: list[Result]) -> Result:
    middle = statistics.median_low([result.seconds for result in results])
    return next(result for result in results if result.seconds == middle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "shapes", nargs="*", default=["20x4", "100x4", "5x200"], help="JOBSxRANKS ..."
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="of each shape; the table has the medians (default 3)"
    )
    given = parser.parse_args()
    tables: dict[Shape, dict[str, Result]] = {}
    with control_plane(NAME, nodes=50, quiet=False) as cluster:
        for shape in map(Shape.parse, given.shapes):
            tables[shape] = asyncio.run(race(cluster, shape, given.runs))
    print(HEAD)
    for shape, results in tables.items():
        print("\n".join(result.row(shape, name) for name, result in results.items()))
    print("", cpu_table(tables), "", writes_table(tables), "", goals.HEAD, sep="\n")
    for shape, results in tables.items():
        print("\n".join(goals.rows(shape, results)))
    if JOBSET not in os.environ:
        print(f"JobSet was not there: {JOBSET} names no program (docs/performance.md)")


if __name__ == "__main__":
    main()
