"""How long a job takes to start while another namespace starts 500: python bench/neighbours.py."""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from cluster import Cluster
from faults.bulk import for_all
from faults.kube import Access, Kube, dijob, jobs, make_namespace
from faults.running import Operator
from start import LIMIT_SECONDS, Shape, bench_cluster, clear, start_jobs, until_listed

ONE = Shape(1, 4)


async def start_one(kube: Kube, namespace: str) -> float:
    """Seconds from a job of 4 to Running; it is gone afterwards."""
    await make_namespace(kube, namespace)
    took = await asyncio.wait_for(start_jobs(kube, namespace, ONE), LIMIT_SECONDS)
    await clear(kube, namespace)
    return took


async def started(kube: Kube, namespace: str) -> int:
    """How many jobs run."""
    return sum((job.get("status") or {}).get("phase") == "Running" for job in await kube.items(jobs(namespace)))


async def measure(cluster: Cluster, count: int, runs: int) -> None:
    """Starts alone, then starts one after the other while the crowd is starting."""
    stamp = int(time.time())
    crowd = f"crowd-{stamp}"
    log = Path(tempfile.gettempdir()) / f"{crowd}.log"
    async with Kube(Access.of(cluster.kubeconfig)) as kube, Operator(cluster.kubeconfig, log) as operator:
        await until_listed(operator)
        alone = [await start_one(kube, f"alone-{number}-{stamp}") for number in range(runs)]
        print(f"# alone: {', '.join(f'{seconds:.2f}' for seconds in alone)} s", flush=True)
        await make_namespace(kube, crowd)
        bodies = [dijob(crowd, f"job{number}", 1) for number in range(count)]
        crowding = asyncio.create_task(for_all(bodies, lambda body: kube.create(jobs(crowd), body)))
        among: list[float] = []
        while not among or await started(kube, crowd) < count:
            among.append(await start_one(kube, f"among-{len(among)}-{stamp}"))
            print(f"# {await started(kube, crowd)} of {count} others run; this one took {among[-1]:.2f} s", flush=True)
        await crowding
        await clear(kube, crowd)
    log.unlink()
    ratio = statistics.median(among) / statistics.median(alone)
    print(
        f"a job of 4: alone {statistics.median(alone):.2f} s; while {count} jobs of another namespace start: median "
        f"{statistics.median(among):.2f} s of {len(among)}, worst {max(among):.2f} s; ratio {ratio:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500, help="jobs of the other namespace (default 500)")
    parser.add_argument("--runs", type=int, default=5, help="starts alone (default 5)")
    given = parser.parse_args()
    with bench_cluster() as cluster:
        asyncio.run(measure(cluster, given.jobs, given.runs))


if __name__ == "__main__":
    main()
