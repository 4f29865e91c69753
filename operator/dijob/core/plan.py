"""Decides one reconciliation: make_plan(job, observed, now) returns the actions and the new status.

The plan compares the job with the current state and does not depend on earlier plans. Whatever must
survive a crash of the operator is in the status before the first action that follows from it. So
the operator can be killed between any two API calls.

The rules, in the order in which a job meets them:
1. Missing pods are created. The gate in each pod waits for the peer list.
2. When every rank has an address, the next revision of the peer list and its digest are written to
   the status. Then each pod gets the list, and the programs start. The ranks below minReplicas are
   required. The others have a join window (gatherSeconds), and may join later (rendezvous.py).
3. A lost rank makes the list stale for itself and for the ranks that connect to it (losses.py). The
   loss is written to the status first. Then the lost pod is re-created. The ranks that connect to
   it restart in their pods if possible (restart.py), else their pods are re-created, too. All other
   ranks keep running. Once all have addresses, rule 2 applies again. Failures and successes are
   stored before the pods that show them are deleted.
4. The job ends (completion.py) when all ranks, or those that successPolicy names, have succeeded,
   or when there are more failures than backoffLimit, a failure that the failure policy makes fatal,
   or a deadline. Then its pods are cleaned up.
5. A suspended job has no pods (suspension.py). After it is resumed, rule 1 applies again.
6. A job that is being deleted is only observed (terminating.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from dijob import names
from dijob.api.model import DIJob
from dijob.api.status import GivenBack, Status, format_time
from dijob.core.actions import (
    Action,
    Event,
)
from dijob.core.decide import (
    address_writes,
    changes,
    completion,
    program_starts,
    re_rendezvous,
    requeue,
    steps,
    suspension,
    terminating,
)
from dijob.core.decide.context import Context
from dijob.core.facts import Fact
from dijob.core.members import gang_of
from dijob.core.membership import capacity, failures
from dijob.core.membership.address_list import recover_revision
from dijob.core.membership.losses import Loss
from dijob.core.membership.policy import Policy
from dijob.core.membership.world import World
from dijob.core.observed.silence import with_silence
from dijob.core.observed.views import Observed, Pod
from dijob.core.render.pod import template_hash
from dijob.core.report import conditions, deletion, ends, rejections
from dijob.core.report import suspension as suspended_job
from dijob.core.report.optional import optional_conditions
from dijob.core.report.summary import apply_facts, events


@dataclass(frozen=True)
class Plan:
    """The result of one reconciliation: the status to write if it differs from the stored one, the
    actions, the events, and the seconds until the next reconciliation.
    """

    status: Status
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: float = requeue.RESYNC_SECONDS
    # An action waits until this status is stored, so the write must not be delayed (pressure).
    write_now: bool = False


def make_plan(job: DIJob, observed: Observed, now: datetime) -> Plan:
    """Decide one reconciliation.

    Pure: the same arguments give the same plan. Once a job is in its desired state, its plans are
    empty.
    """
    ctx = _build_context(job, observed, now)
    if job.metadata.deletion_timestamp:
        return _plan_deletion(ctx)
    if job.status.ended:
        if job.paused:
            return _build_plan(
                ctx, ctx.next_status, optional_conditions(ctx), requeue.at_next_resync
            )
        return _build_plan(
            ctx,
            ctx.next_status,
            optional_conditions(ctx),
            requeue.after_end,
            completion.clean_up(ctx),
        )
    if (last := completion.find_verdict(ctx)) is not None:
        return _build_plan(ctx, _completed_status(ctx), ends.end_facts(ctx, last), requeue.at_once)
    suspended = suspension.is_suspended(ctx)
    # The loss and the counted failure go into the same write of the status. The next
    # reconciliation acts on it, so no failure can be counted without its restart, or twice.
    if not suspended and (loss := re_rendezvous.restart_job_loss(ctx)):
        return _plan_re_rendezvous(ctx, loss)
    # After the rules for the end: a paused job that succeeds or fails is still reported as such.
    if job.paused:
        return _build_plan(
            ctx, ctx.next_status, conditions.progress_facts(ctx), requeue.at_next_resync, ()
        )
    if suspended:
        return _plan_suspension(ctx)
    # Pods with another template would not fit those that run. A program that failed in its own pod
    # may restart there, because that pod stays as it is.
    if ctx.template_changed:
        starts = program_starts.confirm_failures(ctx)
        return _build_plan(
            ctx, ctx.next_status, conditions.progress_facts(ctx), requeue.while_watching, starts
        )
    return _plan_active(ctx)


def _plan_deletion(ctx: Context) -> Plan:
    """Plan for a job that is being deleted. The garbage collector deletes its pods, so nothing is
    created meanwhile.
    """
    if (left := terminating.seconds_until_reported(ctx)) > 0:
        return Plan(status=ctx.job.status, requeue_after=left)
    if not ctx.job.status.ended and (last := completion.find_verdict(ctx)) is not None:
        return _build_plan(ctx, _completed_status(ctx), ends.end_facts(ctx, last), requeue.at_once)
    return _build_plan(
        ctx,
        ctx.next_status,
        deletion.deletion_facts(ctx),
        requeue.while_terminating,
        terminating.force_delete_lost_pods(ctx),
    )


def _plan_active(ctx: Context) -> Plan:
    """Plan for a job that runs or starts. A loss and a new peer list are written to the status
    before any action that follows from them.
    """
    if loss := ctx.loss or re_rendezvous.size_change_loss(ctx):
        return _plan_re_rendezvous(ctx, loss)
    timeout = ctx.job.spec.schedule_timeout_seconds
    if record := capacity.due_give_back(ctx.rendezvous, ctx.next_status, timeout):
        # Stored before the pods are deleted. Otherwise an operator that is killed in between would
        # re-create them at once.
        return _plan_release_record(ctx, record)
    given = ctx.next_status.given_back
    if (
        given
        and ctx.world.no_rank_runs
        and capacity.seconds_until_retry(ctx.next_status, ctx.now) > 0
    ):
        # A pod that was kept has found a node, so there is capacity: the pause ends now.
        if capacity.found_node(ctx.world, given):
            over = given.model_copy(update={"until": format_time(ctx.now)})
            return _plan_release_record(ctx, over)
        return _build_plan(
            ctx,
            ctx.next_status,
            conditions.progress_facts(ctx),
            requeue.waiting_for_room,
            steps.give_back(ctx, given),
        )
    if due := address_writes.next_list(ctx):
        ctx = address_writes.with_new_revision(ctx, due)
        return _build_plan(ctx, ctx.next_status, conditions.progress_facts(ctx), requeue.at_once)
    return _build_plan(
        ctx,
        ctx.next_status,
        conditions.progress_facts(ctx),
        requeue.while_advancing,
        steps.next_actions(ctx),
    )


def _plan_release_record(ctx: Context, record: GivenBack) -> Plan:
    """Record in the status that capacity is released, or until when. The next reconciliation acts
    on it.
    """
    ctx = replace(ctx, next_status=ctx.next_status.model_copy(update={"given_back": record}))
    return _build_plan(ctx, ctx.next_status, conditions.progress_facts(ctx), requeue.at_once)


def _build_context(job: DIJob, observed: Observed, now: datetime) -> Context:
    """Return the context of the decisions: the pods compared with the peer list, and the status
    with everything counted so far.
    """
    gang, observed = gang_of(job), with_silence(observed, now)
    stored = recover_revision(gang, observed, job.status)
    policy, known = Policy.of(job, gang), failures.read_ledger(stored, gang)
    # Nothing is counted after the end: the clean-up ends the programs that still run.
    over = job.status.ended
    counted, world = known, World.of(gang, observed, known.into(stored), now)
    if not over:
        counted = failures.with_successes(known, world, policy)
        world = replace(world, succeeded=counted.succeeded)
        without_redis = failures.failed_without_redis(gang, observed)
        counted = failures.with_failures(counted, world, policy, now, without_redis)
    present = [pod for pod in observed.pods.values() if not pod.deleting]
    first_seen = observed.first_seen or now
    status = _observed_status(job, world, present, counted.into(stored), first_seen)
    waited = capacity.seconds_rejected(world, observed, status, now)
    timeout = job.spec.schedule_timeout_seconds
    return Context(
        job=job,
        world=world,
        observed=observed,
        now=now,
        rejected_ranks=frozenset(rank for rank, seconds in waited.items() if seconds >= timeout),
        next_status=status,
        policy=policy,
        template_changed=status.template_hash != template_hash(job),
        has_unstored_counts=counted != known,
        new_failures=counted.new,
    )


def _observed_status(
    job: DIJob, world: World, present: list[Pod], counted: Status, first_seen: datetime
) -> Status:
    """Return the status with the observed figures. `present` are the pods that are not being
    deleted.
    """
    return counted.model_copy(
        update={
            "template_hash": _made_from(job, present),
            "topology": job.topology.value,
            "parallel_workers": None if job.workers_assumed else job.workers,
            "desired": world.gang.size,
            "tasks": world.gang.task_sizes,
            "replicas": len(present),
            "task_status": conditions.by_task(world.gang, present),
            "ready_replicas": sum(pod.ready for pod in present),
            "selector": f"{names.LABEL_JOB}={world.gang.job}",
            "start_time": job.status.start_time or format_time(first_seen),
            # Once a job has started, the retries of its next wait are counted from 1 again.
            "given_back": None if world.list_is_active else job.status.given_back,
        }
    )


def _made_from(job: DIJob, present: Iterable[Pod]) -> str:
    """Return the fingerprint of the template that the pods were made from. The annotations of the
    pods count only if the status has none, because the operator was killed before it wrote it.
    """
    fingerprint = template_hash(job)
    annotated = [pod.made.template_hash for pod in present]
    # Without pods nothing can contradict the spec: a changed template is accepted now.
    if not annotated:
        return fingerprint
    return job.status.template_hash or next(
        (one for one in annotated if one not in ("", fingerprint)), fingerprint
    )


def _build_plan(
    ctx: Context,
    status: Status,
    facts: Iterable[Fact],
    when: requeue.When,
    actions: tuple[Action, ...] | None = None,
) -> Plan:
    """Return the plan of a branch from its status, facts, requeue rule and actions.

    `actions` is None if the branch only writes the status and the next reconciliation acts on it.
    Actions that the API server has rejected are left out until their back-off is over.
    """
    wished = actions or ()
    status = apply_facts(
        status,
        (*facts, *rejections.rejection_facts(ctx, actions)),
        ctx.job.metadata.generation,
        ctx.now,
    )
    seconds, refused = when(ctx, status), changes.seconds_until_next(ctx, wished)
    seconds = seconds if refused is None else max(min(seconds, refused), 0.1)
    write_now = ctx.has_unstored_counts and (
        bool(ctx.world.to_delete or program_starts.pods_to_confirm(ctx))
        or when in (requeue.while_suspended, requeue.waiting_for_room)
    )
    return Plan(
        status=status,
        actions=changes.due_actions(ctx, wished),
        events=events(ctx.job.status, status),
        requeue_after=seconds,
        write_now=write_now,
    )


def _plan_suspension(ctx: Context) -> Plan:
    status = suspension.next_status(ctx)
    if suspension.can_resume(ctx):
        return _build_plan(
            ctx,
            status,
            optional_conditions(replace(ctx, next_status=status)),
            requeue.at_once,
        )
    actions = (*steps.default_replicas(ctx), *suspension.delete_all_pods(ctx))
    return _build_plan(
        ctx, status, suspended_job.suspension_facts(ctx), requeue.while_suspended, actions
    )


def _plan_re_rendezvous(ctx: Context, loss: Loss) -> Plan:
    """Record a loss in the status: for which ranks the peer list is stale, and why. The next
    reconciliation acts on it.
    """
    ctx = re_rendezvous.record_loss(ctx, loss)
    return _build_plan(ctx, ctx.next_status, conditions.progress_facts(ctx), requeue.at_once)


def _completed_status(ctx: Context) -> Status:
    return ctx.next_status.model_copy(
        update={"completion_time": format_time(ctx.now), "suspend_time": None}
    )
