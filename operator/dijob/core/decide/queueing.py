"""Makes the decisions about a job that Kueue admits: when it must wait, which Workload it needs,
and what the operator reports to Kueue.

Kueue decides when a job starts and when it must stop. A job that must not run is suspended in the
same way as with spec.suspend. So its programs stop gracefully, and no failure is counted. The
Workload is watched, and nothing about it is stored elsewhere, so an operator that restarts
continues from the Workload alone.

The order of the steps follows Kueue's own controllers (pkg/controller/jobframework/reconciler.go).
First the job stops. When its pods are gone, the operator gives back the quota reservation. Then
Kueue puts the Workload into the queue again.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet
from dijob.api.status import format_time, parse_time
from dijob.core.actions import (
    Action,
    AdmittedPods,
    CreateWorkload,
    DeleteWorkload,
    ReportWorkload,
)
from dijob.core.decide import growth
from dijob.core.decide.context import Context
from dijob.core.facts import is_true
from dijob.core.members import parse_ranks
from dijob.core.observed.queue_views import QueueView, Workload
from dijob.core.render.scheduling import kueue
from dijob.core.render.scheduling.pod_set_names import pod_set_name
from dijob.names import Engine
from dijob.reasons import Succeeded

# After an eviction for one of these reasons, the Workload is put into the queue again at once.
# After any other eviction, Kueue itself requeues the Workload when a back-off is over or the queue
# is active again.
REQUEUED_AT_ONCE: Final = ("Preempted", "NodeFailures")
# The message of a condition in Kueue has at most this many characters.
MESSAGE_LIMIT: Final = 1024


def uses_queue(ctx: Context) -> bool:
    """Whether Kueue decides when the job runs."""
    return ctx.observed.scheduling.engine is Engine.KUEUE


def workload_key(ctx: Context) -> str:
    """Return the key of the job's Workload, as used for rejections."""
    return f"workload/{kueue.workload_name(ctx.job)}"


def is_held(ctx: Context) -> bool:
    """Whether Kueue holds the job back: Kueue has not admitted the job, or has evicted it. While
    the Workloads are not known, for example because the operator has just started, the job
    continues.
    """
    seen = ctx.observed.queue
    if not uses_queue(ctx) or not seen.known:
        return False
    if seen.workload is None or not seen.workload.runs:
        return True
    # The job may have been edited between the creation of its Workload and its start.
    begins = bool(ctx.job.status.suspend_time) and not _has_pods(ctx)
    return begins and _differs(seen)


def is_released(ctx: Context) -> bool:
    """Whether the queue allows a suspended job to start."""
    if not uses_queue(ctx):
        return True
    return ctx.observed.queue.known and not is_held(ctx)


def pods_wait(ctx: Context) -> bool:
    """Whether pods must wait until Kueue's placement of them is known."""
    return uses_queue(ctx) and not _placement_is_known(ctx.job, ctx.observed.queue)


def admitted_pods(ctx: Context) -> AdmittedPods | None:
    """Return the Workload of new pods; None if Kueue does not manage the job, or if the job has no
    Workload.
    """
    admitted = ctx.observed.queue.workload
    if not uses_queue(ctx) or admitted is None:
        return None
    return AdmittedPods(Engine.KUEUE, admitted.name)


def missing_flavors(admitted: Workload, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the assigned flavors that have not been read yet."""
    needed = (name for one in admitted.assigned.values() for name in one.flavors)
    known = set(known)
    return tuple(name for name in dict.fromkeys(needed) if name not in known)


def _placement_is_known(job: DIJob, seen: QueueView) -> bool:
    """Whether the assignment of each pod set, and all assigned flavors, are known."""
    admitted = seen.workload
    if admitted is None or not admitted.runs or missing_flavors(admitted, seen.flavors):
        return False
    needed = {*admitted.counts, *map(pod_set_name, job.pod_sets)}
    return needed <= admitted.assigned.keys()


# --- the Workload
# -------------------------------------------------------------------------------------------------


def held_actions(ctx: Context, may_create: bool) -> tuple[Action, ...]:
    """Return the actions on the Workload of a suspended job that has no pods left. `may_create`:
    the Workload is missing, and the back-off of its creation is over.
    """
    seen, found = ctx.observed.queue, ctx.observed.queue.workload
    if not seen.known:
        return ()
    if _has_pods(ctx):
        # A job that is stopping does not grow.
        return growth.delete_spare(seen, reserving=False)
    spare = growth.delete_spare(seen, reserving=True)
    if ctx.job.spec.suspend or not uses_queue(ctx):
        return (*_delete(found), *spare)
    if growth.has_spare(seen):
        return spare
    if found is None:
        priority = seen.priority
        wanted = may_create and priority is not None
        new = CreateWorkload(name=kueue.workload_name(ctx.job), priority=priority or 0)
        return (new,) if wanted else ()
    if is_outdated(ctx):
        return _delete(found)
    if found.is_true("Evicted") and found.reserves:
        return (_release(ctx, found),)
    return ()


def _has_pods(ctx: Context) -> bool:
    """Whether the job still has pods, which may be using its quota."""
    return bool(ctx.observed.all_pods)


def workload_is_missing(ctx: Context) -> bool:
    """Whether the job needs a Workload and has none. A job that still has pods does not need a
    Workload yet.
    """
    seen = ctx.observed.queue
    stops = ctx.job.spec.suspend or ctx.job.status.ended or _has_pods(ctx)
    wanted = uses_queue(ctx) and not stops
    return wanted and seen.known and seen.workload is None and bool(kueue.queue_name(ctx.job))


def is_outdated(ctx: Context) -> bool:
    """Whether the Workload of a waiting job is unsuitable, so that the job needs a new one.

    A Workload is unsuitable if it was created from another version of the job. For a job with a
    minimum, a Workload that was created to replace a smaller one is also unsuitable. Such a
    Workload has no minimum, so Kueue would admit either all of its pods or none.
    """
    seen = ctx.observed.queue
    if _differs(seen):
        return True
    grown = seen.workload is not None and bool(seen.workload.replaces)
    return grown and kueue.has_minimum(ctx.job)


def _differs(seen: QueueView) -> bool:
    """Whether the Workload was created from another version of the job. Kueue accepts no change to
    the pod sets of a Workload that has been admitted, so the operator creates a new one.
    """
    found = seen.workload
    return found is not None and (found.digest != seen.digest or found.is_true("Finished"))


def running_actions(ctx: Context) -> tuple[Action, ...]:
    """Report the state of a running job: whether its ranks are ready, and how many of its ranks no
    longer need their quota.
    """
    seen, found = ctx.observed.queue, ctx.observed.queue.workload
    if not seen.known or found is None:
        return ()
    if not uses_queue(ctx):
        return (*_delete(found), *growth.delete_spare(seen, reserving=True))
    # Kueue has moved the quota of a replaced Workload to its larger replacement, which is not
    # admitted yet.
    if not found.runs or found.replaced or ctx.has_unstored_counts:
        return ()
    status: dict[str, Any] = {}
    if changed := _ready_condition(ctx, found):
        status["conditions"] = _with_conditions(ctx, found, changed)
    if reclaimable := _reclaimable(ctx, found):
        status["reclaimablePods"] = [
            {"name": name, "count": count} for name, count in sorted(reclaimable.items())
        ]
    return (_report(found, ", ".join(status), status),) if status else ()


def end_actions(ctx: Context) -> tuple[Action, ...]:
    """Tell Kueue that the job has ended, once its pods have released their nodes."""
    seen, found = ctx.observed.queue, ctx.observed.queue.workload
    if not seen.known or found is None:
        return ()
    pods = ctx.observed.all_pods
    busy = any((pod.deleting or pod.ending_soon) and not pod.finished for pod in pods)
    # Kueue must not admit more ranks of a job that has ended.
    if spare := growth.delete_spare(seen, reserving=not busy):
        return spare
    if busy or found.deleting or found.is_true("Finished"):
        return ()
    good = is_true(ctx.job.status, Succeeded)
    reason = "Succeeded" if good else "Failed"
    changed = {"Finished": ("True", reason, ctx.job.status.message or f"the job has {reason}")}
    return (_report(found, "Finished", {"conditions": _with_conditions(ctx, found, changed)}),)


def _delete(found: Workload | None) -> tuple[Action, ...]:
    return (DeleteWorkload(found.name, found.uid),) if found and not found.deleting else ()


def _report(found: Workload, what: str, status: Mapping[str, Any]) -> ReportWorkload:
    return ReportWorkload(
        name=found.name, uid=found.uid, version=found.version, what=what, status=status
    )


# Maps the type of a condition to its new status, reason and message.
Changes = Mapping[str, tuple[str, str, str]]


def _release(ctx: Context, found: Workload) -> ReportWorkload:
    """Return the report that gives back the quota reservation of an evicted Workload."""
    evicted = found.condition("Evicted")
    reason, message = str(evicted.get("reason")), str(evicted.get("message") or "")
    requeued = "True" if reason in REQUEUED_AT_ONCE else "False"
    changes = {
        "Requeued": (requeued, reason, message),
        "QuotaReserved": ("False", "PendingEvaluation", message),
        "Admitted": ("False", "NoReservation", "The workload has no reservation"),
    }
    if found.condition("PodsReady"):
        changes["PodsReady"] = ("False", "WaitForStart", NOT_READY)
    status: dict[str, Any] = {
        "admission": None,
        # Cleared, because otherwise Kueue would assign quota only to the pods that are not
        # reclaimable. The next admission would then limit the size of the job to those pods.
        "reclaimablePods": None,
        "conditions": _with_conditions(ctx, found, changes),
    }
    # If a Workload has maximumExecutionTimeSeconds, that limit applies to the total time of all its
    # admissions.
    since = parse_time(found.condition("Admitted").get("lastTransitionTime"))
    if since is not None and found.is_true("Admitted"):
        ran = max(0, int((ctx.now - since).total_seconds()))
        status["accumulatedPastExecutionTimeSeconds"] = found.past_seconds + ran
    return _report(found, "released", status)


NOT_READY: Final = "Not all pods are ready or succeeded"


def _ready_condition(ctx: Context, found: Workload) -> Changes:
    """Return the change that the condition PodsReady needs now; {} if it needs none. Kueue treats
    a missing condition as False, so a job that has never been ready needs no condition.
    """
    before = found.condition("PodsReady")
    if _is_ready(ctx) == (before.get("status") == "True"):
        return {}
    if before.get("status") == "True":
        text = "At least one pod has failed, waiting for recovery"
        return {"PodsReady": ("False", "WaitForRecovery", text)}
    again = before.get("reason") in ("WaitForRecovery", "Recovered")
    reason = "Recovered" if again else "Started"
    text = "All pods reached readiness and the workload is running"
    return {"PodsReady": ("True", reason, text)}


def _is_ready(ctx: Context) -> bool:
    """Whether all ranks of the peer list are Ready or have succeeded. A job that may run with fewer
    ranks than desired is ready without the missing ranks.
    """
    world = ctx.world
    pods = [world.pods.get(rank) for rank in world.unfinished]
    return world.list_is_active and all(pod and pod.ready and not pod.deleting for pod in pods)


def _reclaimable(ctx: Context, found: Workload) -> Mapping[str, int]:
    """Return how many pods of each pod set no longer need their quota; {} if Kueue already has
    these numbers.

    These are the ranks that have succeeded, and the ranks that the job no longer has. Kueue accepts
    only changes that increase a number.
    """
    job, wanted = ctx.job, dict(found.reclaimable)
    last = job.pod_sets[-1]
    for one in job.pod_sets:
        name = pod_set_name(one)
        done = sum(_is_gone(ctx, rank) for rank in _succeeded_in(job, one))
        removed = 0
        if one is last:
            # The pods of ranks that the job no longer has may still hold their nodes.
            alive = max((rank + 1 for rank in ctx.world.pods), default=0)
            size = max(one.replicas, alive - one.first)
            # Kueue subtracts this number from the count in the pod set, not from the admitted
            # count.
            if done + found.assigned_count(name) > size:
                removed = found.counts.get(name, 0) - size
        if (count := done + max(0, removed)) > wanted.get(name, 0):
            wanted[name] = count
    return wanted if wanted != dict(found.reclaimable) else {}


def _is_gone(ctx: Context, rank: int) -> bool:
    """Whether a succeeded rank no longer uses a node. A sidecar may still be running in its pod."""
    pod = ctx.world.pods.get(rank)
    return pod is None or pod.finished


def _succeeded_in(job: DIJob, pod_set: PodSet) -> frozenset[int]:
    """Return the ranks of a pod set that have succeeded for good. With a gang restart, a loss also
    restarts ranks that have succeeded, unless their whole task has succeeded. Ranks that are not in
    the peer list cannot join a task that has succeeded.
    """
    if job.restart_scope == "Job" and job.spec.runtime.traits.fixed_membership:
        return frozenset()
    first, size = pod_set.first, pod_set.replicas
    done = parse_ranks(job.status.succeeded_ranks or "")
    found = frozenset(rank for rank in done if first <= rank < first + size)
    listed = job.status.address_list
    all_of_it = min(size, listed.size - first) if listed else size
    return found if pod_set.own_runtime is None or len(found) == all_of_it else frozenset()


def _with_conditions(ctx: Context, found: Workload, changes: Changes) -> list[dict[str, Any]]:
    """Return all conditions of the Workload with these changes. A merge patch replaces the list as
    a whole.
    """
    made = []
    for type_, (status, reason, message) in changes.items():
        before = found.condition(type_)
        same = before.get("status") == status
        made.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message[:MESSAGE_LIMIT],
                "observedGeneration": found.generation,
                "lastTransitionTime": before.get("lastTransitionTime")
                if same
                else format_time(ctx.now),
            }
        )
    kept = (dict(one) for one in found.conditions if one.get("type") not in changes)
    return [*kept, *made]


# --- the size of the job
# -------------------------------------------------------------------------------------------------


def admitted_size(job: DIJob, seen: QueueView) -> int:
    """Return how many ranks the job may have: the desired number, but at most the number that Kueue
    has admitted. A rank that has given its quota back cannot return before the next admission.
    """
    found = seen.workload
    if found is None or not found.runs:
        return job.spec.desired
    last = job.pod_sets[-1]
    name = pod_set_name(last)
    done = len(_succeeded_in(job, last))
    unassigned = found.counts.get(name, 0) - found.assigned_count(name)
    given_back = found.reclaimable.get(name, 0) - done - unassigned
    most = found.assigned_count(name) - max(0, given_back)
    return min(job.spec.desired, last.first + max(1, most))
