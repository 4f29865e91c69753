"""What a job waits for, and so when to look again although nothing happens."""

import math
from collections.abc import Callable, Iterator, Sequence

from dijob.api.status import Status, timestamp
from dijob.core import pace
from dijob.core.actions import RemindPod
from dijob.core.decide import completion
from dijob.core.membership import capacity, restart
from dijob.core.membership.context import Pass
from dijob.core.observed import creations, lost_nodes
from dijob.core.observed.views import Refused
from dijob.core.report import conditions, redis
from dijob.core.report.summary import is_true
from dijob.reasons import Running

# A full pass, which writes nothing where nothing differs.
RESYNC_SECONDS = 300.0
# While the job is not running yet: reasons such as FailedMount come only as events, which nobody
# watches. The longer the job waits, the more rarely it is looked at: after a quarter of its age,
# within these bounds.
LOOK_AGAIN_SECONDS = (4.0, 60.0)
# A kubelet can miss that a list should show in the pod's files: once in some 500 pods, on a busy
# machine, a gate waited for over a minute although its pod had the list. Any change of the pod
# makes it look again. Where writes are quick, kubelets show a list within 1.2 s, also on a busy
# machine; where they are slow, it is waited for longer (pace.py).
REMIND_SECONDS = 4.0
# The fractional parts of its multiples are evenly spread, however many there are.
GOLDEN_RATIO = 0.618034
# Added to a wait: stored times are cut to whole seconds.
STAMPED_SECONDS = 0.5


# When a branch of the plan is looked at again although nothing happens, in seconds: from what it
# does, and from the status that it writes.
When = Callable[[Pass, Status], float]


def at_once(ctx: Pass, status: Status) -> float:
    """What is being written is what the next pass acts on."""
    return 0.0


def rarely(ctx: Pass, status: Status) -> float:
    """Nothing is done before somebody edits the job."""
    return RESYNC_SECONDS


def after_end(ctx: Pass, status: Status) -> float:
    """Pods are cleaned up as they show; the job goes when its time to live is over."""
    return _at_latest(completion.time_to_live(ctx))


def suspended(ctx: Pass, status: Status) -> float:
    """Pods that nobody will end are removed when their time is over."""
    return _at_latest(lost_nodes.seconds_until_next(ctx.observed.all_pods, ctx.now))


def terminating(ctx: Pass, status: Status) -> float:
    """Pods on lost nodes are removed when their time is over; all else comes as an event."""
    return _at_latest(lost_nodes.seconds_until_next(ctx.observed.all_pods, ctx.now))


def waiting_for_room(ctx: Pass, status: Status) -> float:
    """What holds room is given back until the next try."""
    return min(
        _at_latest(completion.deadline(ctx)),
        capacity.seconds_until_retry(ctx.status, ctx.now) + STAMPED_SECONDS,
    )


def watching(ctx: Pass, status: Status) -> float:
    """Nothing is done to the pods; a deadline may end the job, and what is said of it may
    change.
    """
    return min([_at_latest(completion.deadline(ctx)), *_status_waits(ctx, status)])


def advancing(ctx: Pass, status: Status) -> float:
    """Whatever the next step waits for."""
    waits = (*_pod_waits(ctx), *_list_waits(ctx), *_service_waits(ctx))
    # Never at once: what is due is done by this very plan.
    return max(min([watching(ctx, status), *waits]), 0.1)


def _pod_waits(ctx: Pass) -> Iterator[float]:
    """When pods that are missing come, and when pods that hang are removed, or given back."""
    if not pods_wait_for_shared(ctx):
        for rank in (*ctx.gathering.needed, *ctx.gathering.ranks_to_add[:1]):
            yield wait_to_create(ctx, rank)
    for seconds in (
        lost_nodes.seconds_until_next(ctx.world.pods.values(), ctx.now),
        capacity.until_given_back(ctx.gathering, ctx.status, ctx.job.spec.schedule_timeout_seconds),
    ):
        if seconds and seconds > 0:
            yield seconds + STAMPED_SECONDS


def _list_waits(ctx: Pass) -> Iterator[float]:
    """When a list is given out, when its kubelet is reminded of it, when a pod that does not heed
    it is re-created.
    """
    if (seconds := ctx.gathering.seconds_left) > 0:
        yield seconds + STAMPED_SECONDS
    for _, seconds in pending_reminders(ctx):
        if seconds > 0:
            yield seconds
    for rank in (rank for rank in ctx.world.restarts.pending if not ctx.world.pods[rank].deleting):
        yield (
            max(0.0, restart.seconds_left(ctx.world.pods[rank], ctx.observed, ctx.now))
            + STAMPED_SECONDS
        )


def _service_waits(ctx: Pass) -> Iterator[float]:
    """When the service, the policy, and the job's own Redis server are created (again)."""
    for kind, missing in (
        ("service", service_is_missing(ctx)),
        ("networkpolicy", policy_is_missing(ctx)),
    ):
        if missing and (seconds := wait_to_make(ctx, f"{kind}/{ctx.world.gang.job}")) > 0:
            yield seconds
    if redis.absence(ctx.world.gang, ctx.observed, ctx.now):
        yield max(LOOK_AGAIN_SECONDS[0], wait_for_pod(ctx, ctx.world.gang.server))


def _status_waits(ctx: Pass, status: Status) -> Iterator[float]:
    """When to look why the job is not complete."""
    if not is_true(status, Running) or not ctx.world.in_force or ctx.world.addressless:
        least, most = LOOK_AGAIN_SECONDS
        yield min(most, max(least, conditions.age(status, ctx.now) / 4))
    if (left := conditions.until_problem(status, ctx.now)) and left > 0:
        yield left + STAMPED_SECONDS


def _at_latest(left: float | None) -> float:
    """Seconds until the next look: when a deadline has come that is `left` seconds away (None:
    there is none; 0 or less: it has come), at the latest at the next resync."""
    return (
        RESYNC_SECONDS if left is None or left <= 0 else min(RESYNC_SECONDS, left + STAMPED_SECONDS)
    )


def pending_reminders(ctx: Pass) -> list[tuple[RemindPod, float]]:
    """A reminder for each pod in which a list has had no effect yet (it is still at the gate, or
    its process has not started again), and in how many seconds it is due; the pause doubles with
    each reminder.
    """
    world, now, newest = ctx.world, ctx.now, ctx.world.address_list.number
    stamped = timestamp(now)  # once: among 1,500 pods it shows
    pause = pace.interval(REMIND_SECONDS, ctx.observed.latency)
    soonest = -math.inf if ctx.observed.reminder_budget else pause
    pods = (pod for rank in world.unfinished if (pod := world.pods.get(rank)) and not pod.deleting)
    found = []
    for pod in pods if world.in_force else ():
        at_gate = pod.containers.gated and pod.copy.address_list.number == newest
        if at_gate or pod.rank in world.restarts.pending:
            number = newest if at_gate else pod.copy.renew_from
            seen = ctx.observed.list_seen.get((pod.uid, number), now)
            last = ctx.observed.reminded.get((pod.uid, number), seen)
            left = pause + (last - seen).total_seconds() - (now - last).total_seconds()
            found.append((RemindPod(pod.name, pod.uid, number, stamped), max(left, soonest)))
    return found


def service_is_missing(ctx: Pass) -> bool:
    """Whether the job is to have its headless Service, and has none."""
    missing = f"service/{ctx.world.gang.job}" not in ctx.observed.existing
    return ctx.job.wants_service and missing


def policy_is_missing(ctx: Pass) -> bool:
    """Whether the job is to have a NetworkPolicy, and has none."""
    isolation = ctx.observed.isolation
    return isolation.wanted and ctx.world.gang.job not in isolation.policies


def pods_wait_for_shared(ctx: Pass) -> bool:
    """Whether an object must exist before any pod is created: the NetworkPolicy, without which a
    pod would be open to all, and before the first pod the Service. An init container, a probe and
    the program may look a peer's name up as soon as they start, and some do so only once.

    A job that already has pods heals without its Service: most programs use the addresses.
    """
    return policy_is_missing(ctx) or (service_is_missing(ctx) and not ctx.observed.pods)


def may_try(ctx: Pass, key: str) -> bool:
    """Whether the object ("service/x") may be created now."""
    return wait_to_make(ctx, key) <= 0


def wait_to_make(ctx: Pass, key: str) -> float:
    """Seconds until the object ("pod/x-0") may be created (again): it may have been rejected, or
    deleted again and again; 0 or less: now.
    """
    refusal = ctx.observed.refusals.get(key)
    asked_again = (refusal.retry_at - ctx.now).total_seconds() if refusal else 0.0
    lately = ctx.observed.creations.get(key.removeprefix("pod/"))
    return max(asked_again, creations.wait(lately, ctx.now))


def wait_to_create(ctx: Pass, rank: int) -> float:
    """Seconds until the rank's pod may be created (again); 0 or less: now."""
    return wait_for_pod(ctx, ctx.world.gang.member(rank).name)


def wait_for_pod(ctx: Pass, name: str) -> float:
    """Seconds until the pod of this name may be created (again); 0 or less: now."""
    return wait_to_make(ctx, f"pod/{name}")


def creation_order(ctx: Pass, ranks: Sequence[int]) -> list[int]:
    """The order in which pods are created. Where the first creation is refused, the others are not
    tried (shell/batch.py). While old pods still have the names, each try begins with another rank,
    so that one pod that never ends does not hold up all; the ranks nearest to it come next.
    """
    refusals = (
        ctx.observed.refusals.get(f"pod/{ctx.world.gang.member(rank).name}") for rank in ranks
    )
    tried = max((no.attempts for no in refusals if no and no.why is Refused.TERMINATING), default=0)
    first = int(len(ranks) * (tried * GOLDEN_RATIO % 1.0))
    return [
        ranks[index] for index in sorted(range(len(ranks)), key=lambda index: abs(index - first))
    ]
