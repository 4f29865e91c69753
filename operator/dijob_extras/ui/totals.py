"""Computes the GPU hours and the goodput of each namespace, for administrators. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dijob.api.problems import SpecError
from dijob.cli.goodput.show import measure_job
from dijob.client import Job
from dijob.core.report.time_spent import TimeSpent
from dijob.names import Activity

_HOUR: Final = 3600
# A job in one of these activities has pods on nodes.
_ON_NODES: Final = (Activity.STARTING, Activity.RUNNING, Activity.RECOVERING)


@dataclass
class NamespaceTotal:
    """Sums over the jobs of a namespace. Times are in GPU seconds or rank seconds."""

    jobs: int = 0
    active: int = 0
    uncounted: int = 0
    """Jobs whose time or size is unknown, because no operator has counted the time, or because the
    spec is invalid.
    """
    gpus: int = 0
    """GPUs of the jobs that currently have pods on nodes."""
    held: int = 0
    """GPU seconds between the assignment of nodes and the end of the job."""
    productive: int = 0
    """GPU seconds in which the job made progress."""
    rank_total: int = 0
    rank_productive: int = 0

    def add(self, job: Job, now: datetime) -> None:
        """Add a job."""
        self.jobs += 1
        spent, size = measure_job(job, now), _size_of(job)
        if spent is None or size is None:
            self.uncounted += 1
            return
        self._count(spent, *size)

    def _count(self, spent: TimeSpent, ranks: int, gpus: int) -> None:
        if spent.activity in _ON_NODES:
            self.active += 1
            self.gpus += gpus
        # While a job waits or is suspended, it has no nodes, and thus no GPUs.
        self.held += gpus * (spent.total - spent.seconds[Activity.WAITING])
        self.productive += gpus * spent.productive
        self.rank_total += ranks * spent.total
        self.rank_productive += ranks * spent.productive

    def merge(self, other: "NamespaceTotal") -> None:
        """Add the sums of another namespace."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def data(self) -> dict[str, Any]:
        """Return the row of the table."""
        share = self.rank_productive / self.rank_total if self.rank_total else None
        return {
            "jobs": self.jobs,
            "active": self.active,
            "uncounted": self.uncounted,
            "gpus": self.gpus,
            "gpuHours": round(self.held / _HOUR, 2),
            "productiveHours": round(self.productive / _HOUR, 2),
            "goodput": None if share is None else round(share, 4),
        }


def _size_of(job: Job) -> tuple[int, int] | None:
    """Return the numbers of ranks and GPUs that a job requests; None if the spec is invalid."""
    try:
        model = job.model
    except SpecError:
        return None
    return sum(one.replicas for one in model.pod_sets), model.gpus


def sum_by_namespace(jobs: Iterable[Job], now: datetime) -> Mapping[str, Any]:
    """Return the totals of each namespace, in descending order of GPU hours, and the sum of all
    totals.

    The goodput of a namespace is the mean of its jobs, weighted by the number of their ranks.
    """
    found: dict[str, NamespaceTotal] = {}
    for job in jobs:
        found.setdefault(job.metadata.namespace, NamespaceTotal()).add(job, now)
    total = NamespaceTotal()
    for one in found.values():
        total.merge(one)
    order = sorted(found.items(), key=lambda pair: (-pair[1].held, pair[0]))
    rows = [{"namespace": namespace, **one.data()} for namespace, one in order]
    return {"rows": rows, "total": total.data()}
