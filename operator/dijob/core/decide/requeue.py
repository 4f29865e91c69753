"""Decides when a job is reconciled again if no event arrives.

Most changes arrive as watch events. A timer is needed for everything else: deadlines, back-offs and
join windows. It is also needed for what no watch reports, such as a pod's Kubernetes events, or a
kubelet that has missed an annotation.
"""

from collections.abc import Callable, Iterator

from dijob.api.status import Status
from dijob.core.decide import (
    address_writes,
    budgets,
    completion,
    growth,
    queueing,
    scheduling,
    stalls,
    steps,
)
from dijob.core.decide.context import Context
from dijob.core.decide.deletion import seconds_until_force
from dijob.core.facts import is_true, job_age, seconds_until_problem
from dijob.core.membership import capacity, restart
from dijob.reasons import Running

# The longest interval between two reconciliations of a job. It bounds how long a missed change can
# stay unnoticed. A reconciliation writes nothing if nothing has changed.
RESYNC_SECONDS = 300.0
# The interval while a job is not running yet. Reasons such as FailedMount are reported only as
# events, which are not watched. The interval is a quarter of the job's age, within these bounds. A
# job that has waited for a long time rarely starts in the next few seconds.
LOOK_AGAIN_SECONDS = (4.0, 60.0)
# Seconds added to a wait, because stored times are truncated to seconds.
STAMPED_SECONDS = 0.5
# The interval while a job waits for the first list of Workloads, which usually takes less than a
# second.
UNKNOWN_SECONDS = 1.0
# The retry interval while it is unknown whether Kueue can add ranks to a running job.
ASK_AGAIN_SECONDS = 30.0


# Returns the seconds until the next reconciliation, for one branch of the plan. The arguments are
# the context, and the status that the branch writes.
When = Callable[[Context, Status], float]


def at_once(ctx: Context, status: Status) -> float:
    """Return 0: the next reconciliation acts on what this one writes."""
    return 0.0


def at_next_resync(ctx: Context, status: Status) -> float:
    """Return the resync interval. The job is paused, so only an edit makes the operator act."""
    return RESYNC_SECONDS


def after_end(ctx: Context, status: Status) -> float:
    """Return the seconds until the job is deleted after its time to live. Changes to its pods
    arrive as events.
    """
    return _at_latest(completion.time_to_live(ctx))


def while_suspended(ctx: Context, status: Status) -> float:
    """Return the seconds until the next step of a suspended job.

    In this step, either pods on lost nodes are force-deleted after their grace period, or the
    Workload of a job with a queue is created or read.
    """
    waits = [_at_latest(seconds_until_force(ctx.observed.all_pods, ctx.now)), *_queue_waits(ctx)]
    return max(min(waits), 0.1)


def _queue_waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until the state of the job's queue is read again."""
    seen = ctx.observed.queue
    if not queueing.uses_queue(ctx) or ctx.job.spec.suspend:
        return
    if not seen.known:
        yield UNKNOWN_SECONDS if seen.served else LOOK_AGAIN_SECONDS[1]
    elif seen.workload is None:
        if queueing.workload_is_missing(ctx):
            # Without its priority class, the Workload cannot be created yet.
            read_in = (seen.read_in or 0.0) if seen.unread else 0.0
            wait = steps.wait_to_make(ctx, queueing.workload_key(ctx))
            yield max(wait, read_in, UNKNOWN_SECONDS)
    elif seen.read_in is not None:
        yield max(seen.read_in, 0.0) + STAMPED_SECONDS


def while_terminating(ctx: Context, status: Status) -> float:
    """Return the seconds until pods on lost nodes are force-deleted. Other changes arrive as
    events.
    """
    return _at_latest(seconds_until_force(ctx.observed.all_pods, ctx.now))


def waiting_for_room(ctx: Context, status: Status) -> float:
    """Return the seconds until the next attempt of a job that has released its capacity, or until
    its deadline.
    """
    return min(
        _at_latest(completion.seconds_to_deadline(ctx)),
        capacity.seconds_until_retry(ctx.next_status, ctx.now) + STAMPED_SECONDS,
    )


def while_watching(ctx: Context, status: Status) -> float:
    """Return the seconds until a deadline may end the job, or until conditions may change. The
    operator leaves the pods as they are.
    """
    return min([_at_latest(completion.seconds_to_deadline(ctx)), *_status_waits(ctx, status)])


def while_advancing(ctx: Context, status: Status) -> float:
    """Return the seconds until the earliest of the times that the job is waiting for."""
    waits = (*_pod_waits(ctx), *_list_waits(ctx), *_service_waits(ctx), *stalls.waits(ctx))
    # The result is never 0, because this plan already does what is due.
    return max(min([while_watching(ctx, status), *waits]), 0.1)


def _pod_waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until missing pods may be created, until pods on lost nodes are
    force-deleted, and until capacity is released.
    """
    if not steps.pods_wait_for_shared(ctx):
        for rank in (*ctx.rendezvous.needed, *ctx.rendezvous.ranks_to_add[:1]):
            yield steps.wait_to_create(ctx, rank)
    for seconds in (
        seconds_until_force(ctx.world.pods.values(), ctx.now),
        capacity.until_given_back(
            ctx.rendezvous, ctx.next_status, ctx.job.spec.schedule_timeout_seconds
        ),
    ):
        if seconds and seconds > 0:
            yield seconds + STAMPED_SECONDS


def _list_waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until a peer list is published, and until a kubelet is reminded of it. If a
    pod's restart is pending, also yield the seconds until the operator re-creates this pod.
    """
    if (seconds := ctx.rendezvous.seconds_left) > 0:
        yield seconds + STAMPED_SECONDS
    for _, seconds in address_writes.pending_reminders(ctx):
        if seconds > 0:
            yield seconds
    for rank in (rank for rank in ctx.world.restarts.pending if not ctx.world.pods[rank].deleting):
        yield (
            max(0.0, restart.seconds_left(ctx.world.pods[rank], ctx.observed, ctx.now))
            + STAMPED_SECONDS
        )


def _service_waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until the Service, the NetworkPolicy, the budgets and the Redis server are
    created.
    """
    for kind, missing in (
        ("service", steps.service_is_missing(ctx)),
        ("networkpolicy", steps.policy_is_missing(ctx)),
    ):
        if missing and (seconds := steps.wait_to_make(ctx, f"{kind}/{ctx.world.gang.job}")) > 0:
            yield seconds
    if queueing.pods_wait(ctx) or ctx.observed.queue.growth:
        yield from _queue_waits(ctx)
    elif growth.growth_is_missing(ctx):
        yield max(steps.wait_to_make(ctx, growth.growth_key(ctx)), UNKNOWN_SECONDS)
    elif ctx.observed.queue.held_back and ctx.observed.queue.slices is None:
        yield ASK_AGAIN_SECONDS
    if scheduling.object_is_missing(ctx):
        yield max(0.0, steps.wait_to_make(ctx, scheduling.object_key(ctx)))
    for budget in budgets.missing_budgets(ctx):
        yield max(0.0, steps.wait_to_make(ctx, budgets.budget_key(budget.name)))
    yield from budgets.waits_to_read(ctx)
    if not ctx.redis_is_ready:
        yield max(LOOK_AGAIN_SECONDS[0], steps.wait_for_pod(ctx, ctx.world.gang.server))


def _status_waits(ctx: Context, status: Status) -> Iterator[float]:
    """Yield the seconds until the operator checks again why the job is not complete."""
    if not is_true(status, Running) or not ctx.world.list_is_active or ctx.world.addressless:
        least, most = LOOK_AGAIN_SECONDS
        yield min(most, max(least, job_age(status, ctx.now) / 4))
    if (left := seconds_until_problem(status, ctx.now)) and left > 0:
        yield left + STAMPED_SECONDS


def _at_latest(left: float | None) -> float:
    """Return the wait (seconds) until a point in time, but at most the resync interval. The point
    is `left` seconds away. `left` is None if there is no such point, and 0 or less if it has
    passed.
    """
    return (
        RESYNC_SECONDS if left is None or left <= 0 else min(RESYNC_SECONDS, left + STAMPED_SECONDS)
    )
