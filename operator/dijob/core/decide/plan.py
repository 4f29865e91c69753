"""Decides one pass: plan(job, observed, now) gives the actions to carry out and the status to
write.

The rules, in the order in which a job meets them:
1. Missing pods are created; the gate in each of them waits for the address list.
2. When every rank has an address, the list gets the next number; that and its digest are written
   down first. Then each pod is given the list, and the programs start. Those below minReplicas must
   be there; the others are waited for a little, and may join later (gathering.py).
3. A rank that is lost makes the list dead for itself and for those that dial it (losses.py): that
   is written first. Then the lost pod is re-created; those that dial it start again in their pods
   where that is possible (restart.py), else they are re-created too. All others run on. Once all
   have addresses, rule 2 begins again. Failures and successes are written down before the pods that
   show them are deleted.
4. All ranks have succeeded, or those whose success is the job's; more failures than backoffLimit,
   one that the job's policy does not forgive, a deadline (completion.py): the job has ended, and
   its pods are cleaned up.
5. A job that is suspended has no pods (suspension.py); when it goes on, rule 1 begins again.
6. A job that is being deleted is only observed (terminating.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from dijob import names
from dijob.api.model import DIJob
from dijob.api.status import Status, timestamp
from dijob.core.actions import (
    Action,
    Event,
)
from dijob.core.decide import (
    address_writes,
    changes,
    completion,
    program_starts,
    renewal,
    requeue,
    steps,
    suspension,
    terminating,
)
from dijob.core.members import gang_of
from dijob.core.membership import capacity, failures
from dijob.core.membership.address_list import recovered
from dijob.core.membership.context import Pass
from dijob.core.membership.gathering import Gathering
from dijob.core.membership.losses import Loss
from dijob.core.membership.policy import Policy
from dijob.core.membership.world import World
from dijob.core.observed.silence import with_silence
from dijob.core.observed.views import Observed, Pod
from dijob.core.render.pod import template_hash
from dijob.core.report import conditions
from dijob.core.report.optional import optional_conditions
from dijob.core.report.summary import Fact, conclude, events


@dataclass(frozen=True)
class Plan:
    """One pass: the status to write (if it differs), what to do, what to tell, when to look again
    (seconds).
    """

    status: Status
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: float = requeue.RESYNC_SECONDS
    # An action is held back until this status is stored: the write must not be put off.
    write_now: bool = False


def plan(job: DIJob, observed: Observed, now: datetime) -> Plan:
    """Decide one pass.

    Pure: the same arguments give the same plan. Once a job is as it should be, its plans are empty.
    """
    ctx = _build_context(job, observed, now)
    if job.metadata.deletion_timestamp:
        return _terminate(ctx)
    if job.status.ended:
        if job.paused:
            return _conclude(ctx, ctx.status, optional_conditions(ctx), requeue.rarely)
        return _conclude(
            ctx,
            ctx.status,
            optional_conditions(ctx),
            requeue.after_end,
            completion.clean(ctx),
        )
    if (last := completion.end(ctx)) is not None:
        return _conclude(ctx, _completed(ctx), last, requeue.at_once)
    suspended = suspension.applies(ctx)
    # The renewal and the charge go into the same write of the status; the next pass acts on it.
    if not suspended and (loss := renewal.demanded(ctx)):
        return _renew(ctx, loss)
    if job.paused:
        return _conclude(ctx, ctx.status, conditions.progress(ctx), requeue.rarely, ())
    if suspended:
        return _suspend(ctx)
    if ctx.template_changed:
        starts = program_starts.confirmations(ctx)
        return _conclude(ctx, ctx.status, conditions.progress(ctx), requeue.watching, starts)
    return _plan_active(ctx)


def _terminate(ctx: Pass) -> Plan:
    """The pass over a job that is being deleted: the garbage collector takes its pods, and nothing
    is created behind its back.
    """
    if (left := terminating.seconds_until_reported(ctx)) > 0:
        return Plan(status=ctx.job.status, requeue_after=left)
    if not ctx.job.status.ended and (last := completion.end(ctx)) is not None:
        return _conclude(ctx, _completed(ctx), last, requeue.at_once)
    return _conclude(
        ctx,
        ctx.status,
        terminating.facts(ctx),
        requeue.terminating,
        terminating.actions(ctx),
    )


def _plan_active(ctx: Pass) -> Plan:
    """The pass over a job that runs, or is to. What kills a list, or makes one, is written down
    before any act.
    """
    if loss := ctx.loss or renewal.scaled(ctx):
        return _renew(ctx, loss)
    timeout = ctx.job.spec.schedule_timeout_seconds
    if record := capacity.due_give_back(ctx.gathering, ctx.status, timeout):
        # An operator that is killed here must not create them again at once.
        ctx = replace(ctx, status=ctx.status.model_copy(update={"given_back": record}))
        return _conclude(ctx, ctx.status, conditions.progress(ctx), requeue.at_once)
    given = ctx.status.given_back
    if given and ctx.world.nobody_runs and capacity.seconds_until_retry(ctx.status, ctx.now) > 0:
        if capacity.found_node(ctx.world, given):
            over = given.model_copy(update={"until": timestamp(ctx.now)})
            ctx = replace(ctx, status=ctx.status.model_copy(update={"given_back": over}))
            return _conclude(ctx, ctx.status, conditions.progress(ctx), requeue.at_once)
        return _conclude(
            ctx,
            ctx.status,
            conditions.progress(ctx),
            requeue.waiting_for_room,
            steps.give_back(ctx, given),
        )
    if due := address_writes.next_list(ctx):
        ctx = address_writes.numbered(ctx, due)
        return _conclude(ctx, ctx.status, conditions.progress(ctx), requeue.at_once)
    return _conclude(
        ctx, ctx.status, conditions.progress(ctx), requeue.advancing, steps.advance(ctx)
    )


def _build_context(job: DIJob, observed: Observed, now: datetime) -> Pass:
    """Gather what the pass decides on: the world as it stands, and the status with everything
    counted so far.
    """
    gang, observed = gang_of(job), with_silence(observed, now)
    stored = recovered(gang, observed, job.status)
    policy, known = Policy.of(job, gang), failures.read(stored, gang)
    # After the end nothing is counted any more: what ends then is ended by the clean-up.
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
    waited = capacity.refused(world, observed, status, now)
    timeout = job.spec.schedule_timeout_seconds
    return Pass(
        job=job,
        gathering=Gathering(
            world=world,
            observed=observed,
            window=job.spec.gather_seconds,
            now=now,
            refused=frozenset(rank for rank, seconds in waited.items() if seconds >= timeout),
        ),
        status=status,
        policy=policy,
        template_changed=status.template_hash != template_hash(job),
        has_unstored_counts=counted != known,
        new_failures=counted.new,
    )


def _observed_status(
    job: DIJob, world: World, present: list[Pod], counted: Status, first_seen: datetime
) -> Status:
    """The status with what is seen of the job now; `present` are its pods that are not being
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
            "start_time": job.status.start_time or timestamp(first_seen),
            # A job that has begun counts its retries from the first one again.
            "given_back": None if world.in_force else job.status.given_back,
        }
    )


def _made_from(job: DIJob, present: Iterable[Pod]) -> str:
    """The fingerprint of what the pods are made from. What a pod says of itself counts only while
    the status does not know: the operator was killed before it could write it.
    """
    fingerprint = template_hash(job)
    said = [pod.made.template_hash for pod in present]
    if not said:
        return fingerprint
    return job.status.template_hash or next(
        (one for one in said if one not in ("", fingerprint)), fingerprint
    )


def _conclude(
    ctx: Pass,
    status: Status,
    facts: Iterable[Fact],
    when: requeue.When,
    actions: tuple[Action, ...] | None = None,
) -> Plan:
    """The plan of a branch: what it says, when it is looked at again, what it does.

    `actions` is None where the branch only writes down what the next pass acts on. Actions that the
    apiserver has just refused are left out until they are due again.
    """
    wished = actions or ()
    status = conclude(
        status, (*facts, *changes.facts(ctx, actions)), ctx.job.metadata.generation, ctx.now
    )
    seconds, refused = when(ctx, status), changes.seconds_until_next(ctx, wished)
    seconds = seconds if refused is None else max(min(seconds, refused), 0.1)
    write_now = ctx.has_unstored_counts and (
        bool(ctx.world.to_delete or program_starts.waiting(ctx))
        or when in (requeue.suspended, requeue.waiting_for_room)
    )
    return Plan(
        status=status,
        actions=changes.due(ctx, wished),
        events=events(ctx.job.status, status),
        requeue_after=seconds,
        write_now=write_now,
    )


def _suspend(ctx: Pass) -> Plan:
    status = suspension.status(ctx)
    if suspension.resumed(ctx):
        return _conclude(
            ctx,
            status,
            optional_conditions(replace(ctx, status=status)),
            requeue.at_once,
        )
    actions = (*steps.default_replicas(ctx), *suspension.actions(ctx))
    return _conclude(ctx, status, suspension.facts(ctx), requeue.suspended, actions)


def _renew(ctx: Pass, loss: Loss) -> Plan:
    """Write down for whom the list is dead, and whose fault it is. The next pass acts on it."""
    ctx = renewal.recorded(ctx, loss)
    return _conclude(ctx, ctx.status, conditions.progress(ctx), requeue.at_once)


def _completed(ctx: Pass) -> Status:
    return ctx.status.model_copy(
        update={"completion_time": timestamp(ctx.now), "suspend_time": None}
    )
