"""How long jobs take to start on 50 pretended nodes, against a bare client in the same run: python
bench/start.py.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster
from cluster.waiting import until_async
from faults.audit import Audit
from faults.bulk import for_all
from faults.kube import Access, Kube, KubeError, dijob, jobs, make_namespace, pods, services
from faults.running import Operator
from floor import Floor
from planes import control_plane

NAME = "bench"
LIMIT_SECONDS = 300


@dataclass(frozen=True)
class Shape:
    """So many jobs of so many ranks."""

    jobs: int
    ranks: int

    @staticmethod
    def parse(text: str) -> "Shape":
        """100x4: 100 jobs of 4 ranks."""
        count, _, ranks = text.partition("x")
        return Shape(int(count), int(ranks))

    def __str__(self) -> str:
        return f"{self.jobs}x{self.ranks}"


@dataclass(frozen=True)
class Result:
    """One run of one shape. CPU in seconds, RSS in MB, writes by kind."""

    shape: Shape
    floor: float
    seconds: float
    cpu: float
    peak: float
    writes: Counter[str]

    def row(self) -> str:
        return (
            f"| {self.shape} | {self.floor:.1f} s | {self.seconds:.1f} s |"
            f" {self.seconds / self.floor:.2f} | {self.writes.total() / self.shape.jobs:.1f} |"
            f" {self.cpu:.1f} s | {self.peak:.0f} MB |"
        )


HEAD = """| jobs x ranks | floor | operator | ratio | writes/job | operator's CPU | peak RSS |
|---|---|---|---|---|---|---|"""


async def start_jobs(kube: Kube, namespace: str, shape: Shape) -> float:
    """Create the jobs; seconds from the first create until the last one is Running."""
    version = (await kube.get(jobs(namespace)))["metadata"]["resourceVersion"]
    begin = time.monotonic()

    async def create(number: int) -> None:
        # replicas is what the operator would add: `kubectl scale` needs it. The prototype's jobs
        # had it too.
        body = dijob(namespace, f"job{number}", shape.ranks)
        body["spec"]["replicas"] = shape.ranks
        await kube.create(jobs(namespace), body)

    creating = asyncio.create_task(for_all(range(shape.jobs), create))
    running: set[str] = set()
    while len(running) < shape.jobs:  # a server may end a watch at any time
        async for event in kube.events(jobs(namespace), version):
            body = event["object"]
            version = body["metadata"]["resourceVersion"]
            if (body.get("status") or {}).get("phase") == "Running":
                running.add(body["metadata"]["name"])
            if len(running) == shape.jobs:
                break
    took = time.monotonic() - begin
    await creating
    return took


async def clear(kube: Kube, namespace: str) -> None:
    """Remove what a run has made, and wait until the control plane has come to rest."""
    for path in (jobs(namespace), services(namespace), pods(namespace)):
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


async def run_floor(kube: Kube, shape: Shape, namespace: str) -> float:
    await make_namespace(kube, namespace)
    took = await asyncio.wait_for(
        Floor(kube, namespace, shape.jobs, shape.ranks).run(), LIMIT_SECONDS
    )
    await clear(kube, namespace)
    return took


async def run_operator(cluster: Cluster, kube: Kube, shape: Shape, namespace: str) -> Result:
    """An operator that was started for this run alone. Its CPU is without its own start."""
    await make_namespace(kube, namespace)
    log = Path(tempfile.gettempdir()) / f"{namespace}.log"
    async with Operator(cluster.kubeconfig, log) as operator:
        await until_listed(operator)
        before, audit = operator.usage(), Audit(cluster.audit_log)
        took = await asyncio.wait_for(start_jobs(kube, namespace, shape), LIMIT_SECONDS)

        async def services_missing() -> str:
            count = len(await kube.items(services(namespace)))
            return "" if count == shape.jobs else f"{count} of {shape.jobs} services"

        await until_async("all services", services_missing, LIMIT_SECONDS, operator.evidence)
        used = operator.usage()
        writes = audit.count(namespace)
    log.unlink()
    await clear(kube, namespace)
    return Result(shape, 0.0, took, used.cpu - before.cpu, used.peak, writes)


async def measure(cluster: Cluster, shapes: list[Shape], runs: int) -> list[Result]:
    """Floor and operator in turn, so that both see the same machine."""
    results = []
    async with Kube(Access.of(cluster.kubeconfig)) as kube:
        await until_served(kube)
        stamp = int(time.time())
        for shape in shapes:
            floors, mine = [], []
            for number in range(runs):
                suffix = f"{shape}-{number}-{stamp}"
                floors.append(await run_floor(kube, shape, f"floor-{suffix}"))
                mine.append(await run_operator(cluster, kube, shape, f"jobs-{suffix}"))
                print(
                    f"# {shape}, run {number}: floor {floors[-1]:.2f} s, operator"
                    f" {mine[-1].seconds:.2f} s",
                    flush=True,
                )
            middle = statistics.median_low([result.seconds for result in mine])
            chosen = next(result for result in mine if result.seconds == middle)
            results.append(Result(shape, statistics.median_low(floors), *_rest(chosen)))
            print(f"# writes per job: {_per_job(chosen)}", flush=True)
    return results


def _rest(result: Result) -> tuple[float, float, float, Counter[str]]:
    return result.seconds, result.cpu, result.peak, result.writes


def _per_job(result: Result) -> str:
    counted = sorted(result.writes.items())
    return ", ".join(f"{kind} {count / result.shape.jobs:.2f}" for kind, count in counted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "shapes", nargs="*", default=["20x4", "100x4", "5x200"], help="JOBSxRANKS ..."
    )
    parser.add_argument(
        "--runs", type=int, default=2, help="of each shape; the table has the medians (default 2)"
    )
    given = parser.parse_args()
    with control_plane(NAME, nodes=50, quiet=False) as cluster:
        results = asyncio.run(
            measure(cluster, [Shape.parse(text) for text in given.shapes], given.runs)
        )
    print("\n".join([HEAD, *(result.row() for result in results)]))


if __name__ == "__main__":
    main()
