"""What the checks know about each job: its ranks and connections, and whether its programs record
when they last exchanged data.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

PORT = 50515  # DI-engine 0.5.3, ding/entry/cli_parsers/k8s_parser.py: self.ports
REDIS_PORT = 6379


class Wiring(StrEnum):
    """Which ranks are connected to each other."""

    MESH = "mesh"
    STAR = "star"
    REDIS = "redis"  # each rank with the job's Redis server
    TORCH = "torch"  # each rank with every other, on ports that the system chooses


@dataclass(frozen=True)
class Shape:
    """One job.

    `pods` are the names of its pods in rank order. `beats` means that its programs record the
    time of their last exchange of data. `together` means that all of them restart if one is lost.
    """

    name: str
    pods: tuple[str, ...]
    wiring: Wiring
    # In a run of the usual length, a job has fewer failures than this. So no job ends during the
    # run.
    backoff_limit: int = 60
    beats: bool = False
    together: bool = False

    @property
    def server(self) -> str:
        """Return the pod of its Redis server; "" if it has none."""
        return f"{self.name}-mq" if self.wiring is Wiring.REDIS else ""

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the pods that a fault may hit."""
        return (*self.pods, *filter(None, [self.server]))

    def dials(self, rank: int) -> range:
        """Return the ranks whose addresses this rank must know."""
        if self.wiring is Wiring.TORCH:
            return range(len(self.pods))
        if self.wiring is Wiring.MESH:
            return range(rank)
        return range(min(rank, 1)) if self.wiring is Wiring.STAR else range(0)


def _numbered(name: str, size: int) -> tuple[str, ...]:
    return tuple(f"{name}-{rank}" for rank in range(size))


# The first failure in STAR fails this job, so that the report of a failed job is checked, too.
MESH = Shape("mesh", _numbered("mesh", 4), Wiring.MESH)
STAR = Shape("star", _numbered("star", 3), Wiring.STAR, backoff_limit=0)
TASKS = Shape("tasks", ("tasks-learner-0", *_numbered("tasks-collector", 2)), Wiring.MESH)
REDIS = Shape("redis", _numbered("redis", 2), Wiring.REDIS, beats=True)
TORCH = Shape("torch", _numbered("torch", 2), Wiring.TORCH, beats=True, together=True)
# The jobs without DI-engine and torch: they start in seconds. `make test` uses only these.
LIGHT = (MESH, STAR, TASKS)
ALL = (*LIGHT, REDIS, TORCH)


def owner(shapes: Iterable[Shape], pod: str) -> Shape:
    """Return the job to which a pod belongs. Raise KeyError if it belongs to none."""
    found = next((shape for shape in shapes if pod in shape.targets), None)
    if found is None:
        raise KeyError(pod)
    return found
