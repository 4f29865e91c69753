"""The entrants of the benchmark, and the cost of one run of each: bare clients (the floors), the
operator with each kind of addressing, and JobSet if JOBSET_BIN names its program.

Every run has its own namespace and its own operator or controller. So caches and memory of an
earlier run do not influence a later one.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from changes import start_jobs
from faults.lab.audit import OPERATOR, Audit
from faults.lab.channel import open_channel
from faults.lab.kube import make_namespace
from faults.lab.load import plane_cpu, plane_memory
from faults.lab.running import Operator, Usage
from floor import Floor, Kind
from jobset import AGENT, controller, start_jobsets
from measured import Result, Shape, Starts
from place import LIMIT_SECONDS, Place, clear, size_in, until_listed
from planes import ROOT

# How long the entrant is observed after the last job is running: events and statuses may still
# follow.
REST_SECONDS = 2.0
# The variants of the operator: the addressing of the jobs, and additional arguments. The variants
# with a channel get an address for it, and a process that simulates the launchers.
OPERATORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "IP": ("IP", ("--launcher-delivery=InitContainer",)),
    "IP, image volume": ("IP", ("--launcher-delivery=ImageVolume",)),
    "Hostname": ("Hostname", ("--launcher-delivery=InitContainer",)),
    "IP, channel": ("IP", ("--launcher-delivery=InitContainer",)),
    "IP, channel, image volume": ("IP", ("--launcher-delivery=ImageVolume",)),
}
# The variable that names JobSet's program (bin/manager in a checkout).
JOBSET = "JOBSET_BIN"
# The variable that names another checkout, for example of an older commit: its operator is measured
# too, under the same names with this suffix.
OTHER = "OTHER_CHECKOUT"
_OTHER_SUFFIX = ", other checkout"
# The variable with the names of the entrants that take part, separated by semicolons; all if unset.
ENTRANTS = "ENTRANTS"


class Process(Protocol):
    """A process whose CPU and memory are measured."""

    def usage(self) -> Usage: ...


@dataclass(frozen=True)
class Entrant:
    """A process that starts jobs. `agent` is the beginning of its user agent, by which its writes
    are found in the audit log.
    """

    place: Place
    process: Process
    agent: str
    namespace: str

    async def measured(self, acting: Awaitable[Starts]) -> Result:
        """Return the cost of an activity. The CPU of the process excludes its own start, and
        includes its work in the REST_SECONDS after the last job is running.
        """
        cluster = self.place.cluster
        before, plane = self.process.usage(), plane_cpu(cluster)
        audit = Audit(cluster.audit_log)
        starts = await asyncio.wait_for(acting, LIMIT_SECONDS)
        # Measured before the rest period, so that the control plane's CPU ends with the last start.
        plane = plane_cpu(cluster) - plane
        memory = plane_memory(cluster)
        await asyncio.sleep(REST_SECONDS)
        used = self.process.usage()
        return Result.of(
            starts,
            plane,
            memory=memory,
            own=round(used.cpu - before.cpu, 2),
            peak=round(used.peak),
            size=await size_in(self.place.kube, self.namespace),
            writes=dict(audit.count(self.namespace, self.agent)),
        )


class Running(NamedTuple):
    """Running jobs with a separate operator: the operator, its measurement, and the cost of the
    start.
    """

    operator: Operator
    entrant: Entrant
    start: Result


def entrants() -> list[str]:
    """Return the names of all entrants; JobSet takes part only if its program is given."""
    others = [f"{each}{_OTHER_SUFFIX}" for each in OPERATORS] if OTHER in os.environ else []
    jobset = ["JobSet"] if JOBSET in os.environ else []
    every = [*map(str, Kind), *OPERATORS, *others, *jobset]
    chosen = os.environ.get(ENTRANTS, "")
    return [each for each in every if not chosen or each in chosen.split(";")]


async def race_one(place: Place, shape: Shape, name: str, namespace: str) -> Result:
    """Run one entrant once."""
    if name == "JobSet":
        return await race_jobset(place, shape, namespace)
    if name.removesuffix(_OTHER_SUFFIX) in OPERATORS:
        async with started(place, shape, namespace, name) as running:
            return running.start
    # Every other name is the name of a floor.
    return await race_floor(place, shape, namespace, Kind(name))


async def race_floor(place: Place, shape: Shape, namespace: str, kind: Kind = Kind.GATED) -> Result:
    """Run a floor once. Its own CPU is not measured, because a floor represents the unavoidable
    cost.
    """
    cluster, kube = place
    await make_namespace(kube, namespace)
    floor, before = Floor(kube, namespace, shape.jobs, shape.ranks, kind), plane_cpu(cluster)
    starts = await asyncio.wait_for(floor.run(), LIMIT_SECONDS)
    used, size = plane_cpu(cluster) - before, await size_in(kube, namespace)
    await clear(kube, namespace)
    return Result.of(starts, used, size=size)


@asynccontextmanager
async def started(
    place: Place, shape: Shape, namespace: str, name: str = "IP", **how: Any
) -> AsyncIterator[Running]:
    """Start jobs with a separate operator, and remove both at the end."""
    cluster, kube = place
    await make_namespace(kube, namespace)
    # The log is kept if the run fails: `unlink` below is reached only after a success.
    log = Path(tempfile.gettempdir()) / f"{namespace}.log"
    addressing, arguments = OPERATORS[name.removesuffix(_OTHER_SUFFIX)]
    async with AsyncExitStack() as stack:
        if "channel" in name:
            opening = open_channel(kube.access, namespace, strict=True)
            channel = await stack.enter_async_context(opening)
            arguments = (*arguments, *channel.options())
        operator = await stack.enter_async_context(
            Operator(cluster.kubeconfig, log, arguments=arguments, environment=_environment(name))
        )
        await until_listed(operator)
        starting = start_jobs(kube, namespace, shape, addressing=addressing, **how)
        entrant = Entrant(place, operator, OPERATOR, namespace)
        yield Running(operator, entrant, await entrant.measured(starting))
    log.unlink()
    await clear(kube, namespace)


def _environment(name: str) -> dict[str, str]:
    """Return the variables of an operator's process. The operator of another checkout runs with
    this checkout's tools.
    """
    if not name.endswith(_OTHER_SUFFIX):
        return {}
    mine = str(ROOT / "operator")
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    kept = [path for path in paths if Path(path).resolve() != Path(mine)]
    return {"PYTHONPATH": os.pathsep.join([str(Path(os.environ[OTHER]) / "operator"), *kept])}


async def race_jobset(place: Place, shape: Shape, namespace: str) -> Result:
    """Run JobSet once, with a separate controller. The start ends when the pods run; JobSet's own
    status follows a little later.
    """
    cluster, kube = place
    await make_namespace(kube, namespace)
    # A new controller for each run, like the operator: otherwise it would start with warm caches.
    async with controller(Path(os.environ[JOBSET]), cluster) as process:
        entrant = Entrant(place, process, AGENT, namespace)
        result = await entrant.measured(start_jobsets(kube, namespace, shape))
        await clear(kube, namespace)
    return result
