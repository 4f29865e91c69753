"""Decides when a job ends (by success, failure or a deadline), and what happens to its pods and to
the job itself afterwards.

The log of a failed pod is usually the only explanation that users have. So after a job has failed,
the operator keeps the pods whose programs failed (unless cleanPodPolicy is All). It terminates the
kept pods that are still active, so that they do not restart their programs.

A job that is being deleted can still exist for a while: a finalizer keeps it, or the deletion waits
for its pods (`kubectl delete --cascade=foreground`). Like the Deployment controller, the operator
then creates nothing and replaces no lost pods. The status stays accurate, failures are still
counted, and the message says what the deletion is waiting for.
"""

from dataclasses import dataclass
from datetime import datetime

from dijob.api.model import Metadata
from dijob.api.status import Charge, parse_time
from dijob.core.actions import Action, DeleteJob, EndPod
from dijob.core.decide import budgets, suspension
from dijob.core.decide.context import Context
from dijob.core.decide.deletion import delete_pods, force_delete_lost_pods
from dijob.core.facts import find_condition, is_true
from dijob.core.observed.views import Pod
from dijob.names import ANNOTATION_RECORDED, CleanPodPolicy, FailureAction
from dijob.reasons import Failed, Running, Succeeded

# Most deletions are immediate. To save a status write, a deletion that takes less time than this is
# not reported.
REPORT_SECONDS = 3.0
# A job that dijob.history has not recorded yet is kept for at most this long after its time to
# live. The time is bounded, so that jobs do not fill the cluster while dijob.history is down.
RECORD_SECONDS = 3600.0


@dataclass(frozen=True)
class Verdict:
    """How the job ends. `rank` is the rank whose failure ends the job at once, if there is one."""

    reason: Succeeded | Failed
    rank: int | None = None


def find_verdict(ctx: Context) -> Verdict | None:
    """Return how the job ends, according to the first rule that applies; None if it continues.
    Deadlines do not apply while the job is paused, suspended or being deleted.
    """
    deleted = bool(ctx.job.metadata.deletion_timestamp)
    without_deadlines = ctx.job.paused or deleted or suspension.is_suspended(ctx)
    rules = ENDS if without_deadlines else (*ENDS, *DEADLINES)
    return next((found for rule in rules if (found := rule(ctx))), None)


def _success_verdict(ctx: Context) -> Verdict | None:
    if not ctx.policy.fulfilled(ctx.world.succeeded, frozenset(ctx.world.unfinished)):
        return None
    return Verdict(Succeeded.SuccessPolicy if ctx.world.unfinished else Succeeded.AllRanksSucceeded)


def _fatal_failure(ctx: Context) -> Verdict | None:
    actions = ctx.new_failures.items()
    fatal = [rank for rank, action in actions if action is FailureAction.FAIL_JOB]
    return Verdict(Failed.FailurePolicy, fatal[0]) if fatal else None


def _too_many_failures(ctx: Context) -> Verdict | None:
    too_many = ctx.next_status.restarts > ctx.job.spec.backoff_limit
    return Verdict(Failed.BackoffLimitExceeded) if too_many else None


def _not_done_in_time(ctx: Context) -> Verdict | None:
    return Verdict(Failed.DeadlineExceeded) if _is_over(_active_left(ctx)) else None


def _not_running_in_time(ctx: Context) -> Verdict | None:
    return Verdict(Failed.StartupDeadlineExceeded) if _is_over(_startup_left(ctx)) else None


def _is_over(left: float | None) -> bool:
    return left is not None and left <= 0


# The order matters: success is checked before failure.
ENDS = (_success_verdict, _fatal_failure, _too_many_failures)
DEADLINES = (_not_done_in_time, _not_running_in_time)


def seconds_to_deadline(ctx: Context) -> float | None:
    """Return the seconds until a deadline ends the job; None if no deadline applies."""
    if suspension.is_suspended(ctx):
        return None
    return min(
        (left for left in (_active_left(ctx), _startup_left(ctx)) if left is not None),
        default=None,
    )


def clean_up(ctx: Context) -> tuple[Action, ...]:
    """Return the actions that clean up after a job has ended. They handle its pods as
    cleanPodPolicy says, and delete its budgets. After the time to live, they delete the job itself
    with everything that belongs to it.
    """
    if (left := time_to_live(ctx)) is not None and left <= 0:
        return (DeleteJob(),)
    return (*clean_pods(ctx), *budgets.delete_budgets(ctx))


def clean_pods(ctx: Context) -> tuple[Action, ...]:
    """Return the actions that clean up the pods of a job that has ended."""
    pods = ctx.observed.all_pods
    policy, server = ctx.job.spec.clean_pod_policy, ctx.world.gang.server
    if policy is CleanPodPolicy.ALL:
        return delete_pods(pods)
    # A pod with a failed program is terminated instead of deleted, so that its log is kept.
    alive = [pod for pod in pods if not pod.finished and not pod.deleting]
    failed = failed_pods(ctx) if is_true(ctx.job.status, Failed) else frozenset()
    end = tuple(
        EndPod(pod.name, pod.uid) for pod in alive if pod.uid in failed and not pod.ending_soon
    )
    # A pod that has not passed its gate is deleted under every policy, because its gate would wait
    # indefinitely. After the job has ended, the operator publishes no peer list, and no longer
    # makes kubelets deliver an earlier list. The Redis server is also deleted, because it never
    # exits on its own.
    running = policy is CleanPodPolicy.RUNNING
    innocent = (pod for pod in alive if pod.uid not in failed)
    return (
        *end,
        *delete_pods(
            pod for pod in innocent if running or not _has_passed_gate(pod) or pod.name == server
        ),
    )


def failed_pods(ctx: Context) -> frozenset[str]:
    """Return the uids of the pods that keep their logs when the job has failed.

    These are the pods with a counted failure. Pods whose program failed before the job ended are
    included even if the failure came too late to be counted.
    """
    seen = {charge.uid: charge for charge in ctx.next_status.restarts_seen}
    charged = {uid for uid, charge in seen.items() if charge.failures}
    ended = ctx.job.status.completion_time or ""
    late = (pod for pod in ctx.world.pods.values() if "" < pod.containers.ended <= ended)
    return frozenset(
        charged
        | {p.uid for p in late if p.containers.failures > seen.get(p.uid, Charge(rank=0)).restarts}
    )


def _has_passed_gate(pod: Pod) -> bool:
    return pod.phase != "Pending" and not pod.containers.gated


def time_to_live(ctx: Context) -> float | None:
    """Return the seconds until a job that has ended is deleted; None if it is kept. A job that
    dijob.history has not recorded yet is kept beyond its time to live. The annotation that marks
    the job as recorded triggers a reconciliation.
    """
    ttl, ended = (
        ctx.job.spec.ttl_seconds_after_finished,
        parse_time(ctx.job.status.completion_time),
    )
    if ttl is None or ended is None:
        return None
    left = ttl - (ctx.now - ended).total_seconds()
    return left + RECORD_SECONDS if _awaits_record(ctx) else left


def _awaits_record(ctx: Context) -> bool:
    """Whether dijob.history must still record the job. A recorded job has an annotation whose value
    is the job's uid, so the annotation is not valid for a copy of the job.
    """
    meta = ctx.job.metadata
    return ctx.observed.keeps_history and meta.annotations.get(ANNOTATION_RECORDED) != meta.uid


def _active_left(ctx: Context) -> float | None:
    limit, status = ctx.job.spec.active_deadline_seconds, ctx.next_status
    if limit is None or (start := parse_time(status.start_time)) is None:
        return None
    return limit - ((ctx.now - start).total_seconds() - status.suspended_seconds)


def _startup_left(ctx: Context) -> float | None:
    """Return the seconds until the startup deadline. This deadline applies to each start: the first
    start, a start after a suspension, and a restart of all ranks.
    """
    limit, status = ctx.job.spec.startup_deadline_seconds, ctx.next_status
    if limit is None:
        return None
    running = find_condition(ctx.job.status, Running)
    if running and running.status == "True":
        return None
    stopped = running.last_transition_time if running else None
    starts = filter(None, map(parse_time, (status.start_time, status.resume_time, stopped)))
    return limit - (ctx.now - max(starts, default=ctx.now)).total_seconds()


def seconds_until_deletion_reported(job: Metadata, now: datetime) -> float:
    """Return the seconds until a deletion has lasted long enough to be reported; 0 or less: now.
    The result is 0 for a job that is not being deleted.
    """
    began = parse_time(job.deletion_timestamp)
    return REPORT_SECONDS - (now - began).total_seconds() if began else 0.0


def clean_up_deleted(ctx: Context) -> tuple[Action, ...]:
    """Force-delete pods on lost nodes, because a foreground deletion would wait for them. The pods
    of a job that has ended are cleaned up as usual.
    """
    ended = ctx.job.status.ended and not ctx.job.paused
    clean = clean_pods(ctx) if ended else ()
    return (*clean, *force_delete_lost_pods(ctx.observed.all_pods, ctx.now))
