"""Decides how a job grows after Kueue has admitted it: the operator requests quota first.

Kueue cannot add pods to an admitted Workload, but it can replace the Workload with a larger one
(Kueue's ElasticJobsViaWorkloadSlices). The larger Workload needs quota only for the additional
ranks. While the larger Workload waits, the job runs with the admitted ranks. When the larger
Workload is admitted, it becomes the job's Workload, and the job grows to the size
of this Workload (core/observed/slices.py).

A waiting Workload is deleted only if its resourceVersion is the observed one. Otherwise, the
operator could delete a Workload to which Kueue has just moved the quota of the running ranks.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from dijob.core.actions import Action, CreateWorkload, DeleteWorkload
from dijob.core.decide.context import Context
from dijob.core.observed.queue_views import QueueView, Workload
from dijob.core.render.scheduling import kueue


class Obstacle(StrEnum):
    """Why a running job cannot request quota."""

    NONE = ""
    NOT_SUPPORTED = (
        "Kueue in this cluster cannot add ranks to a running job (its feature gate"
        " ElasticJobsViaWorkloadSlices is off)"
    )
    TOPOLOGY = (
        "Kueue cannot add ranks to this running job, because Kueue also chooses the job's nodes"
        " (topology-aware scheduling)"
    )
    POD_SETS = "the job's existing Workload has other pod sets than a new one would have"
    QUEUE = "the label kueue.x-k8s.io/queue-name no longer names the queue that admitted the job"


REMEDY: Final = "to request all ranks, suspend and resume the job"


def find_obstacle(ctx: Context, found: Workload) -> Obstacle:
    """Return why the job must be suspended and resumed before it can grow."""
    # A larger Workload in the queue of another ClusterQueue would need quota for all ranks, and
    # could even preempt the smaller one.
    if found.queue != kueue.queue_name(ctx.job):
        return Obstacle.QUEUE
    if any(one.by_topology for one in found.assigned.values()):
        return Obstacle.TOPOLOGY
    # Kueue compares the pod sets of both Workloads by position.
    if tuple(found.counts) != kueue.pod_set_names(ctx.job):
        return Obstacle.POD_SETS
    return Obstacle.NOT_SUPPORTED if ctx.observed.queue.slices is False else Obstacle.NONE


def growth_key(ctx: Context) -> str:
    """Return the key of the larger Workload, as used for rejections; "" if the job has no
    Workload.
    """
    found = ctx.observed.queue.workload
    return f"workload/{_growth_name(ctx, found)}" if found else ""


def _growth_name(ctx: Context, found: Workload) -> str:
    return kueue.growth_name(ctx.job, found.uid, _wanted_ranks(ctx))


def growth_actions(ctx: Context, may_create: bool) -> tuple[Action, ...]:
    """Return the actions for the larger Workload of a running job. `may_create`: the back-off of
    its creation is over.
    """
    seen, found = ctx.observed.queue, ctx.observed.queue.workload
    if not seen.known or found is None or not found.runs or ctx.has_unstored_counts:
        return ()
    larger = seen.growth
    if larger is not None:
        useless = larger.digest != seen.digest or larger.is_true("Finished") or not seen.held_back
        return _delete((larger,)) if useless and not larger.reserves else ()
    if seen.others:
        return _delete(seen.others)  # their quota has moved to the current Workload
    if not may_create or not growth_is_missing(ctx) or seen.priority is None:
        return ()
    new = CreateWorkload(
        name=_growth_name(ctx, found),
        priority=seen.priority,
        replaces=found.name,
        ranks=_wanted_ranks(ctx),
    )
    return (new,)


def growth_is_missing(ctx: Context) -> bool:
    """Whether the job needs a larger Workload and has none."""
    seen, found = ctx.observed.queue, ctx.observed.queue.workload
    if not seen.known or found is None or not found.runs or found.replaced:
        return False
    if seen.growth or not (seen.held_back and seen.slices):
        return False
    return find_obstacle(ctx, found) is Obstacle.NONE


def has_spare(seen: QueueView) -> bool:
    """Whether the job has Workloads other than the one that it runs with or waits for."""
    return bool(seen.growth or seen.others)


def delete_spare(seen: QueueView, reserving: bool) -> tuple[Action, ...]:
    """Delete the Workloads other than the one that the job runs with or waits for. Workloads that
    hold a quota reservation are deleted only if `reserving` is true.
    """
    spare = (*((seen.growth,) if seen.growth else ()), *seen.others)
    return _delete(one for one in spare if reserving or not one.reserves)


def _delete(found: Iterable[Workload]) -> tuple[Action, ...]:
    return tuple(
        DeleteWorkload(one.name, one.uid, one.version) for one in found if not one.deleting
    )


def _wanted_ranks(ctx: Context) -> int:
    return ctx.job.spec.desired + ctx.observed.queue.held_back
