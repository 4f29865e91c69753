"""Decides when a job is reconciled again although no event arrives.

Most changes arrive as events of the watches. A timer is needed for everything else: deadlines,
back-offs, join windows, and facts that nothing reports, such as a pod's events or a kubelet that
has missed an annotation.
"""

import math
from collections.abc import Callable, Iterator, Sequence

from dijob.api.status import Status, format_time
from dijob.core import pace
from dijob.core.actions import RemindPod
from dijob.core.decide import completion, redis_server
from dijob.core.decide.context import Context
from dijob.core.decide.deletion import seconds_until_force
from dijob.core.facts import is_true, job_age, seconds_until_problem
from dijob.core.membership import capacity, restart
from dijob.core.observed import creations
from dijob.core.observed.views import RejectionCause
from dijob.reasons import Running

# Bounds the time that a missed change stays unnoticed. It writes nothing if nothing differs.
RESYNC_SECONDS = 300.0
# While a job is not running yet. Reasons such as FailedMount are reported only as events, which are
# not watched. The interval is a quarter of the job's age within these bounds, because a job that
# has waited for long rarely starts in the next seconds.
LOOK_AGAIN_SECONDS = (4.0, 60.0)
# A kubelet can miss that an annotation must show in the pod's files: in about one of 500 pods, on a
# busy machine, a gate waited for over a minute although its pod had the list. Any change of the pod
# makes the kubelet check again. If API writes are quick, kubelets show a list within 1.2 s, also
# on a busy machine. If they are slow, the reminder comes later (pace.py).
REMIND_SECONDS = 4.0
# The fractional parts of its multiples are evenly spread, however many there are.
GOLDEN_RATIO = 0.618034
# Added to a wait, because stored times are truncated to seconds.
STAMPED_SECONDS = 0.5


# Returns the seconds until the next reconciliation of a branch of the plan, from its context and
# the status that it writes.
When = Callable[[Context, Status], float]


def at_once(ctx: Context, status: Status) -> float:
    """The next reconciliation acts on what this one writes."""
    return 0.0


def at_next_resync(ctx: Context, status: Status) -> float:
    """The operator does nothing until the job is edited."""
    return RESYNC_SECONDS


def after_end(ctx: Context, status: Status) -> float:
    """Pods arrive as events; the job itself is deleted after its time to live."""
    return _at_latest(completion.time_to_live(ctx))


def while_suspended(ctx: Context, status: Status) -> float:
    """Pods on lost nodes are force-deleted after their grace period."""
    return _at_latest(seconds_until_force(ctx.observed.all_pods, ctx.now))


def while_terminating(ctx: Context, status: Status) -> float:
    """Pods on lost nodes are force-deleted after their grace period. Other changes arrive as
    events.
    """
    return _at_latest(seconds_until_force(ctx.observed.all_pods, ctx.now))


def waiting_for_room(ctx: Context, status: Status) -> float:
    """The job holds no capacity until its next attempt."""
    return min(
        _at_latest(completion.seconds_to_deadline(ctx)),
        capacity.seconds_until_retry(ctx.next_status, ctx.now) + STAMPED_SECONDS,
    )


def while_watching(ctx: Context, status: Status) -> float:
    """The operator leaves the pods as they are, but a deadline may end the job, and conditions may
    change.
    """
    return min([_at_latest(completion.seconds_to_deadline(ctx)), *_status_waits(ctx, status)])


def while_advancing(ctx: Context, status: Status) -> float:
    """The job is reconciled again when the first of its waits is over."""
    waits = (*_pod_waits(ctx), *_list_waits(ctx), *_service_waits(ctx))
    # Never at once, because this very plan does what is due.
    return max(min([while_watching(ctx, status), *waits]), 0.1)


def _pod_waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until missing pods may be created, pods on lost nodes are force-deleted,
    and capacity is released.
    """
    if not pods_wait_for_shared(ctx):
        for rank in (*ctx.rendezvous.needed, *ctx.rendezvous.ranks_to_add[:1]):
            yield wait_to_create(ctx, rank)
    for seconds in (
        seconds_until_force(ctx.world.pods.values(), ctx.now),
        capacity.until_given_back(
            ctx.rendezvous, ctx.next_status, ctx.job.spec.schedule_timeout_seconds
        ),
    ):
        if seconds and seconds > 0:
            yield seconds + STAMPED_SECONDS


def _list_waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until a peer list is published, until a kubelet is reminded of it, and
    until a pod that does not restart for it is re-created.
    """
    if (seconds := ctx.rendezvous.seconds_left) > 0:
        yield seconds + STAMPED_SECONDS
    for _, seconds in pending_reminders(ctx):
        if seconds > 0:
            yield seconds
    for rank in (rank for rank in ctx.world.restarts.pending if not ctx.world.pods[rank].deleting):
        yield (
            max(0.0, restart.seconds_left(ctx.world.pods[rank], ctx.observed, ctx.now))
            + STAMPED_SECONDS
        )


def _service_waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until the Service, the NetworkPolicy and the Redis server are created."""
    for kind, missing in (
        ("service", service_is_missing(ctx)),
        ("networkpolicy", policy_is_missing(ctx)),
    ):
        if missing and (seconds := wait_to_make(ctx, f"{kind}/{ctx.world.gang.job}")) > 0:
            yield seconds
    if not redis_server.is_ready(ctx.world.gang, ctx.observed):
        yield max(LOOK_AGAIN_SECONDS[0], wait_for_pod(ctx, ctx.world.gang.server))


def _status_waits(ctx: Context, status: Status) -> Iterator[float]:
    """Yield the seconds until the reason why the job is not complete is checked again."""
    if not is_true(status, Running) or not ctx.world.list_is_active or ctx.world.addressless:
        least, most = LOOK_AGAIN_SECONDS
        yield min(most, max(least, job_age(status, ctx.now) / 4))
    if (left := seconds_until_problem(status, ctx.now)) and left > 0:
        yield left + STAMPED_SECONDS


def _at_latest(left: float | None) -> float:
    """Return the seconds until a time that is `left` seconds away, at most until the next resync.
    None means that there is no such time, 0 or less that it is over.
    """
    return (
        RESYNC_SECONDS if left is None or left <= 0 else min(RESYNC_SECONDS, left + STAMPED_SECONDS)
    )


def pending_reminders(ctx: Context) -> list[tuple[RemindPod, float]]:
    """Return a reminder for each pod in which the peer list has had no effect yet (it is still at
    its gate, or its process has not restarted), with the seconds until it is due. The pause doubles
    with each reminder.
    """
    world, now, newest = ctx.world, ctx.now, ctx.world.address_list.number
    stamped = format_time(now)  # Formatted once, because a job can have 1,500 pods.
    pause = pace.write_interval(REMIND_SECONDS, ctx.observed.throttling.latency)
    soonest = -math.inf if ctx.observed.throttling.reminders else pause
    pods = (pod for rank in world.unfinished if (pod := world.pods.get(rank)) and not pod.deleting)
    found = []
    for pod in pods if world.list_is_active else ():
        at_gate = pod.containers.gated and pod.copy.address_list.number == newest
        if at_gate or pod.rank in world.restarts.pending:
            number = newest if at_gate else pod.copy.renew_from
            seen = ctx.observed.list_seen.get((pod.uid, number), now)
            last = ctx.observed.reminded.get((pod.uid, number), seen)
            # Pauses double: the next one is as long as the time from the list's first observation
            # to the last reminder, plus the minimum.
            left = pause + (last - seen).total_seconds() - (now - last).total_seconds()
            found.append((RemindPod(pod.name, pod.uid, number, stamped), max(left, soonest)))
    return found


def service_is_missing(ctx: Context) -> bool:
    """Whether the job needs its headless Service and does not have it."""
    missing = f"service/{ctx.world.gang.job}" not in ctx.observed.existing
    return ctx.job.wants_service and missing


def policy_is_missing(ctx: Context) -> bool:
    """Whether the job needs a NetworkPolicy and does not have it."""
    isolation = ctx.observed.isolation
    return isolation.wanted and ctx.world.gang.job not in isolation.policies


def pods_wait_for_shared(ctx: Context) -> bool:
    """Whether pods must wait for a shared object.

    All pods wait for the NetworkPolicy, because a pod without it would be open to everyone. The
    first pods also wait for the Service: an init container, a probe or the program may look up the
    name of a peer as soon as it starts, and some do so only once. A job that already has pods
    recovers without its Service, because most programs use addresses.
    """
    return policy_is_missing(ctx) or (service_is_missing(ctx) and not ctx.observed.pods)


def may_try(ctx: Context, key: str) -> bool:
    """Whether the object ("service/x") may be created now, see wait_to_make."""
    return wait_to_make(ctx, key) <= 0


def wait_to_make(ctx: Context, key: str) -> float:
    """Return the seconds until the object ("pod/x-0") may be created; 0 or less: now. It waits if
    its creation was rejected, or if it has been deleted repeatedly.
    """
    refusal = ctx.observed.refusals.get(key)
    asked_again = (refusal.retry_at - ctx.now).total_seconds() if refusal else 0.0
    lately = ctx.observed.creations.get(key.removeprefix("pod/"))
    return max(asked_again, creations.seconds_until_creation(lately, ctx.now))


def wait_to_create(ctx: Context, rank: int) -> float:
    """Return the seconds until the rank's pod may be created; 0 or less: now."""
    return wait_for_pod(ctx, ctx.world.gang.member(rank).name)


def wait_for_pod(ctx: Context, name: str) -> float:
    """Return the seconds until the pod of this name may be created; 0 or less: now."""
    return wait_to_make(ctx, f"pod/{name}")


def creation_order(ctx: Context, ranks: Sequence[int]) -> list[int]:
    """Return the order in which pods are created.

    If the first creation is rejected, the others are not tried (controller/write/batch.py). While
    old pods still use the names, each attempt starts with another rank, so that one old pod that
    never ends does not block all ranks. The ranks nearest to the first one follow.
    """
    refusals = (
        ctx.observed.refusals.get(f"pod/{ctx.world.gang.member(rank).name}") for rank in ranks
    )
    tried = max(
        (no.attempts for no in refusals if no and no.why is RejectionCause.TERMINATING), default=0
    )
    first = int(len(ranks) * (tried * GOLDEN_RATIO % 1.0))
    return [
        ranks[index] for index in sorted(range(len(ranks)), key=lambda index: abs(index - first))
    ]
