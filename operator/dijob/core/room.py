"""Not enough room: a job that cannot start gives its pods back, and tries again later (docs/decisions/007)."""

import hashlib
from datetime import datetime, timedelta

from dijob.core import diagnose
from dijob.core.backoff import doubled
from dijob.core.observe import Observed, age
from dijob.core.world import World
from dijob.spec.status import GivenBack, Status, instant, stamp

# Between two tries: 30, 60, 120 ... seconds, each times 0.5 to 1.5: two jobs that each hold half must not meet again.
RETRY_SECONDS = (30.0, 600.0)


def gives_back(world: World, observed: Observed, status: Status, timeout: int, now: datetime) -> GivenBack | None:
    """What to write down when it is time to give the pods back; None when it is not.

    `timeout` (seconds) is how long a rank may look for a node while others of a job in which nobody runs hold theirs.
    """
    if waits(status, now) > 0 or (left := patience(world, timeout, now)) is None or left >= 0:
        return None
    homeless = _homeless(world)
    before = status.given_back.count if status.given_back else 0
    until = now + timedelta(seconds=_pause(world.gang.uid, before))
    why = diagnose.without_address(world.gang, homeless, observed)
    message = f"no room within {timeout} s, so all pods were given back ({why})"
    return GivenBack(count=before + 1, until=stamp(until), message=diagnose.shorten(message))


def patience(world: World, timeout: int, now: datetime) -> float | None:
    """Seconds until pods are given back if nothing changes; None where there is no cause to."""
    homeless = _homeless(world)
    held = (pod for rank, pod in world.pods.items() if rank in world.wanted and not pod.finished)
    if not (world.idle and homeless and any(pod.scheduled for pod in held)):
        return None
    return min(timeout - age(world.pods[rank], now) for rank in homeless)


def waits(status: Status, now: datetime) -> float:
    """Seconds until a job that has given its pods back tries again; 0 or less: it may."""
    until = instant(status.given_back.until) if status.given_back else None
    return (until - now).total_seconds() if until else 0.0


def _homeless(world: World) -> list[int]:
    """The ranks that find no node. Nobody waits for those that the world can do without: they join later."""
    return [rank for rank in world.homeless if rank < world.floor]


def _pause(uid: str, before: int) -> float:
    """Pure, and different for each job and try."""
    dice = hashlib.sha256(f"{uid}/{before}".encode()).digest()[0] / 255
    return doubled(before + 1, RETRY_SECONDS) * (0.5 + dice)
