"""Releases capacity that a job cannot use.

A job that cannot start deletes its pods that have a node, and re-creates them later
(docs/decisions/007). Otherwise, two jobs that each hold half of the cluster would wait for each
other indefinitely.
"""

import hashlib
import math
from datetime import datetime, timedelta

from dijob.api.status import GivenBack, Status, format_time, parse_time
from dijob.core.backoff import doubled_wait
from dijob.core.members import compact_ranks, parse_ranks
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.membership.world import World
from dijob.core.observed import diagnose
from dijob.core.observed.grouping import shorten_message
from dijob.core.observed.views import Observed, Pod, RejectionCause, pod_age

# The pause between attempts: 30, 60, 120 ... seconds, times a factor within SPREAD. Without the
# factor, two jobs that each hold half of the nodes would try again at the same time.
RETRY_SECONDS = (30.0, 600.0)
SPREAD = (0.5, 1.5)


def due_record(rendezvous: Rendezvous, status: Status, timeout: int) -> GivenBack | None:
    """Return the record to store if the job releases its capacity now, or may try again earlier
    than planned; else None.

    `timeout` (seconds) is the admission timeout: how long a rank may wait for a node, or for room
    in a quota. It applies while the job is not running and other ranks of the job hold capacity.
    """
    if over := _end_of_pause(rendezvous, status):
        return over
    world, observed, now = rendezvous.world, rendezvous.observed, rendezvous.now
    if (
        seconds_until_retry(status, now) > 0
        or (left := until_given_back(rendezvous, status, timeout)) is None
        or left >= 0
    ):
        return None
    before = status.given_back.count if status.given_back else 0
    until = now + timedelta(seconds=_retry_pause(world.gang.uid, before))
    waited = sorted(_seconds_waited(rendezvous, status))
    # A pod without a node also counts against a quota. So if a rank waits for room in a quota, all
    # pods are released. Otherwise, pods without a node are kept, so that a cluster autoscaler still
    # sees them.
    quota = any(rank not in world.pods for rank in waited)
    kept = () if quota else (rank for rank, pod in world.pods.items() if not pod.scheduled)
    what = "all its pods" if quota else "the nodes that its pods had"
    why = diagnose.without_address(world.gang, waited, observed, now)
    message = f"no capacity within {timeout} s, so the job released {what} ({why})"
    return GivenBack(
        count=before + 1,
        until=format_time(until),
        message=shorten_message(message),
        kept_ranks=compact_ranks(kept),
        contended=observed.room.contended,
    )


def pods_to_release(rendezvous: Rendezvous, status: Status) -> tuple[Pod, ...] | None:
    """Return the pods to delete while a job that has released its capacity waits for its next
    attempt. Kept pods without a node are not included, so that a cluster autoscaler can add nodes
    for these pods. Return None if the job is not waiting for an attempt.
    """
    world, given = rendezvous.world, status.given_back
    if not (given and world.no_rank_runs and seconds_until_retry(status, rendezvous.now) > 0):
        return None
    kept = parse_ranks(given.kept_ranks)
    pods = (pod for _, pod in sorted(world.pods.items()) if not pod.finished)
    return tuple(pod for pod in pods if pod.scheduled or pod.rank not in kept)


def _end_of_pause(rendezvous: Rendezvous, status: Status) -> GivenBack | None:
    """Return the record to store if the pause before the job's next attempt can end now; else
    None. It can end if one of the kept pods has been bound to a node, because this shows that there
    is capacity. This does not apply if another job was waiting, too. In that case, the pod may have
    taken the capacity that was released for the other job.
    """
    world, now, given = rendezvous.world, rendezvous.now, status.given_back
    if not given or not world.no_rank_runs or seconds_until_retry(status, now) <= 0:
        return None
    kept = (world.pods.get(rank) for rank in parse_ranks(given.kept_ranks))
    found = not given.contended and any(pod and pod.scheduled for pod in kept)
    return given.model_copy(update={"until": format_time(now)}) if found else None


def until_given_back(rendezvous: Rendezvous, status: Status, timeout: int) -> float | None:
    """Return the seconds until the job releases its capacity if nothing changes; None if the job
    has no reason to release it.
    """
    world = rendezvous.world
    if not (world.no_rank_runs and (waited := _seconds_waited(rendezvous, status))):
        return None
    # If no pod outside this job waits for a node, releasing nodes is useless. The job's own pods
    # would take the nodes again, and a cluster autoscaler would no longer see any waiting pods.
    quota, wanted = any(rank not in world.pods for rank in waited), rendezvous.observed.room.wanted
    pods = (pod for rank, pod in world.pods.items() if rank in world.wanted and not pod.finished)
    held = any(quota or (wanted and pod.scheduled) for pod in pods)
    return timeout - max(waited.values()) if held else None


def seconds_rejected(
    world: World, observed: Observed, status: Status, now: datetime
) -> dict[int, float]:
    """Return the ranks whose pods the API server is rejecting because of a quota or a policy, and
    for how many seconds. Time during which the job did not try to create the pod does not count.
    """
    if not observed.rejections:
        return {}
    begun = _start_times(status)
    known = (
        (rank, observed.rejections.get(f"pod/{world.gang.member(rank).name}"))
        for rank in world.missing
    )
    return {
        rank: max(0.0, (now - max([rejection.since, *begun])).total_seconds())
        for rank, rejection in known
        if rejection and rejection.since and rejection.why is RejectionCause.FORBIDDEN
    }


def seconds_until_retry(status: Status, now: datetime) -> float:
    """Return the seconds until a job that has released its capacity tries again; 0 or less: now."""
    until = parse_time(status.given_back.until) if status.given_back else None
    left = (until - now).total_seconds() if until else 0.0
    # A pause beyond the maximum means that the clock has been set back, so such a pause is ignored.
    return left if left <= RETRY_SECONDS[1] * SPREAD[1] else 0.0


def _seconds_waited(rendezvous: Rendezvous, status: Status) -> dict[int, float]:
    """Return for how many seconds each required rank has been waiting for a node, or for room in a
    quota.

    Ranks that are not required are ignored, because they can join later. Pods that are rejected for
    a reason other than a quota are also ignored. No other job can release capacity for them, and
    the pause after a release would only delay the next attempt.
    """
    world, now, rejections = rendezvous.world, rendezvous.now, rendezvous.observed.rejections
    # A pod that was kept is older than this attempt, so the wait must not be computed from its age
    # alone.
    tried = min(((now - time).total_seconds() for time in _start_times(status)), default=math.inf)
    without_node = (rank for rank in rendezvous.unschedulable if rank in world.pods)
    waited = {rank: min(tried, pod_age(world.pods[rank], now)) for rank in without_node}
    rejected = seconds_rejected(world, rendezvous.observed, status, now)
    names = {rank: f"pod/{world.gang.member(rank).name}" for rank in rejected}
    waited |= {rank: time for rank, time in rejected.items() if rejections[names[rank]].of_quota}
    return {rank: seconds for rank, seconds in waited.items() if rank < rendezvous.required_size}


def _start_times(status: Status) -> list[datetime]:
    """Return up to two points in time: when the job was last resumed, and the end (past or future)
    of the pause after its last release.
    """
    stamps = (status.resume_time, status.given_back.until if status.given_back else None)
    return [time for time in map(parse_time, stamps) if time]


def _retry_pause(uid: str, before: int) -> float:
    """Return the pause (seconds) after a release. The jitter comes from a hash instead of a random
    number, so the plan stays pure.
    """
    dice = hashlib.sha256(f"{uid}/{before}".encode()).digest()[0] / 255
    least, most = SPREAD
    return doubled_wait(before + 1, RETRY_SECONDS) * (least + (most - least) * dice)
