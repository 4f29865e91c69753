"""Measures how long a job takes to start while another namespace starts 500 jobs: python
bench/neighbours.py.

The floor is a bare client (floor.py) that starts the same pods under the same load. It shows the
part of the delay that is due to the control plane.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from changes import start_jobs
from cluster import Cluster
from entrants import race_floor
from faults.lab.bulk import for_all
from faults.lab.kube import Access, Kube, dijob, jobs, make_namespace
from faults.lab.running import Operator
from measured import Shape
from place import LIMIT_SECONDS, Place, clear, own_plane, until_listed, until_served

# One job is measured at a time. Its latency is what a user of a quiet namespace sees.
ONE = Shape(1, 4)


async def start_one(kube: Kube, namespace: str) -> float:
    """Return the seconds until a job of 4 ranks is Running, and remove it again."""
    await make_namespace(kube, namespace)
    starts = await asyncio.wait_for(start_jobs(kube, namespace, ONE), LIMIT_SECONDS)
    await clear(kube, namespace)
    return starts.seconds


async def started(kube: Kube, namespace: str) -> int:
    """Return the number of jobs that run."""
    return sum(
        (job.get("status") or {}).get("phase") == "Running"
        for job in await kube.items(jobs(namespace))
    )


async def measure(cluster: Cluster, count: int, runs: int) -> None:
    """Measure starts without other load, then starts one after another while the jobs of the other
    namespace start.
    """
    stamp = int(time.time())
    crowd = f"crowd-{stamp}"
    log = Path(tempfile.gettempdir()) / f"{crowd}.log"
    async with (
        Kube(Access.of(cluster.kubeconfig)) as kube,
        Operator(cluster.kubeconfig, log) as operator,
    ):
        await until_served(kube)
        await until_listed(operator)
        # First without the load of the other namespace, for comparison.
        alone = [await start_one(kube, f"alone-{number}-{stamp}") for number in range(runs)]
        print(f"# alone: {', '.join(f'{seconds:.2f}' for seconds in alone)} s", flush=True)
        await make_namespace(kube, crowd)
        bodies = [dijob(crowd, f"job{number}", 1) for number in range(count)]
        crowding = asyncio.create_task(for_all(bodies, lambda body: kube.create(jobs(crowd), body)))
        among, floors = list[float](), list[float]()
        # The floor and the operator are measured alternately, so that both see the same load.
        while not among or await started(kube, crowd) < count:
            space = f"floor-{len(among)}-{stamp}"
            floors.append((await race_floor(Place(cluster, kube), ONE, space)).seconds)
            among.append(await start_one(kube, f"among-{len(among)}-{stamp}"))
            running = f"{await started(kube, crowd)} of {count} others run"
            print(f"# {running}; floor {floors[-1]:.2f} s, operator {among[-1]:.2f} s", flush=True)
        await crowding
        await clear(kube, crowd)
    log.unlink()
    # Medians, because single starts vary a lot on a busy machine.
    own, floor, median = (statistics.median(one) for one in (alone, floors, among))
    print(
        f"a job of 4: alone {own:.2f} s; while {count} jobs of another namespace start: median"
        f" {median:.2f} s of {len(among)}, worst {max(among):.2f} s; {median / own:.2f} times that"
        f" alone, {median / floor:.2f} times the floor"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--jobs", type=int, default=500, help="jobs of the other namespace (default 500)"
    )
    parser.add_argument("--runs", type=int, default=5, help="starts alone (default 5)")
    given = parser.parse_args()
    with own_plane() as cluster:
        asyncio.run(measure(cluster, given.jobs, given.runs))


if __name__ == "__main__":
    main()
