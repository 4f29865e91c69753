"""Not enough room: a job that cannot start deletes its pods that have a node, and creates them
again later (docs/decisions/007).
"""

import hashlib
import math
from datetime import datetime, timedelta

from dijob.api.status import GivenBack, Status, parse_time, timestamp
from dijob.core.backoff import doubled
from dijob.core.members import compact, expand
from dijob.core.membership.gathering import Gathering
from dijob.core.membership.world import World
from dijob.core.observed import diagnose
from dijob.core.observed.grouping import shorten
from dijob.core.observed.views import Observed, Pod, Refused, age

# Between two tries: 30, 60, 120 ... seconds, each times SPREAD: two jobs that each hold half
# must not meet again.
RETRY_SECONDS = (30.0, 600.0)
SPREAD = (0.5, 1.5)


def due_give_back(gathering: Gathering, status: Status, timeout: int) -> GivenBack | None:
    """What to write down when it is time to give the pods back; None when it is not.

    `timeout` (seconds) is how long a rank may look for a node, or be refused its pod, while others
    of a job in which nobody runs hold theirs.
    """
    world, observed, now = gathering.world, gathering.observed, gathering.now
    if (
        seconds_until_retry(status, now) > 0
        or (left := until_given_back(gathering, status, timeout)) is None
        or left >= 0
    ):
        return None
    before = status.given_back.count if status.given_back else 0
    until = now + timedelta(seconds=_pause(world.gang.uid, before))
    waited = sorted(_waited(gathering, status))
    # A pod without a node fills a quota all the same.
    quota = any(rank not in world.pods for rank in waited)
    kept = () if quota else (rank for rank, pod in world.pods.items() if not pod.scheduled)
    what = "all its pods" if quota else "the nodes that its pods had"
    why = diagnose.without_address(world.gang, waited, observed, now)
    message = f"no capacity within {timeout} s, so the job released {what} ({why})"
    return GivenBack(
        count=before + 1,
        until=timestamp(until),
        message=shorten(message),
        kept_ranks=compact(kept),
        contended=observed.room.contended,
    )


def found_node(world: World, given: GivenBack) -> bool:
    """Whether room has come for a job that waits for its next try: a pod that was kept has a node.

    If another job waited too, that pod has only taken what was given back for the other job.
    """
    kept = (world.pods.get(rank) for rank in expand(given.kept_ranks))
    return not given.contended and any(pod and pod.scheduled for pod in kept)


def to_give_back(world: World, given: GivenBack) -> tuple[Pod, ...]:
    """The pods to delete until the next try: all but those that were kept and have no node."""
    kept = expand(given.kept_ranks)
    pods = (pod for _, pod in sorted(world.pods.items()) if not pod.finished)
    return tuple(pod for pod in pods if pod.scheduled or pod.rank not in kept)


def until_given_back(gathering: Gathering, status: Status, timeout: int) -> float | None:
    """Seconds until pods are given back if nothing changes; None where there is no cause to."""
    world = gathering.world
    if not (world.nobody_runs and (waited := _waited(gathering, status))):
        return None
    # What fills a quota, or has a node. If nothing else waits for a node, the job's own pods would
    # take what it gives back, and a cluster autoscaler would lose sight of those that wait.
    quota, wanted = any(rank not in world.pods for rank in waited), gathering.observed.room.wanted
    pods = (pod for rank, pod in world.pods.items() if rank in world.wanted and not pod.finished)
    held = any(quota or (wanted and pod.scheduled) for pod in pods)
    return timeout - max(waited.values()) if held else None


def refused(world: World, observed: Observed, status: Status, now: datetime) -> dict[int, float]:
    """For how long (seconds) each rank without a pod has been refused one: a quota is full, a
    policy says no.

    The time in which the job itself asked for none does not count.
    """
    if not observed.refusals:
        return {}
    begun = _tries(status)
    known = (
        (rank, observed.refusals.get(f"pod/{world.gang.member(rank).name}"))
        for rank in world.missing
    )
    return {
        rank: max(0.0, (now - max([refusal.since, *begun])).total_seconds())
        for rank, refusal in known
        if refusal and refusal.since and refusal.why is Refused.FORBIDDEN
    }


def seconds_until_retry(status: Status, now: datetime) -> float:
    """Seconds until a job that has given its pods back tries again; 0 or less: it may. No pause
    lasts longer than the longest one: then the clock has been set back since.
    """
    until = parse_time(status.given_back.until) if status.given_back else None
    left = (until - now).total_seconds() if until else 0.0
    return left if left <= RETRY_SECONDS[1] * SPREAD[1] else 0.0


def _waited(gathering: Gathering, status: Status) -> dict[int, float]:
    """For how long each rank has found no node, or no room in a quota. Ranks that the world can do
    without are not waited for: they join later. A pod that is rejected for another reason gets no
    room from other jobs: giving back would only keep the job from trying again soon.
    """
    world, now, refusals = gathering.world, gathering.now, gathering.observed.refusals
    # A pod that was kept is older than this try.
    tried = min(((now - time).total_seconds() for time in _tries(status)), default=math.inf)
    without_node = (rank for rank in gathering.unschedulable if rank in world.pods)
    waited = {rank: min(tried, age(world.pods[rank], now)) for rank in without_node}
    rejected = refused(world, gathering.observed, status, now)
    names = {rank: f"pod/{world.gang.member(rank).name}" for rank in rejected}
    waited |= {rank: time for rank, time in rejected.items() if refusals[names[rank]].of_quota}
    return {rank: seconds for rank, seconds in waited.items() if rank < gathering.required_size}


def _tries(status: Status) -> list[datetime]:
    """When the job was to ask for room again: after it was suspended, or had given room back."""
    stamps = (status.resume_time, status.given_back.until if status.given_back else None)
    return [time for time in map(parse_time, stamps) if time]


def _pause(uid: str, before: int) -> float:
    """Pure, and different for each job and try."""
    dice = hashlib.sha256(f"{uid}/{before}".encode()).digest()[0] / 255
    least, most = SPREAD
    return doubled(before + 1, RETRY_SECONDS) * (least + (most - least) * dice)
