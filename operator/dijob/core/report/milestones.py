"""Compares two statuses of a job, and derives the transitions that the metrics count.

Only one operator stores a given change, even if several operators run or an operator restarts. So
each operator counts only the changes that it has stored itself. No change is counted twice, and
changes from before the operator's start are not counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dijob.api.model import Metadata
from dijob.api.status import Condition, Status, parse_time
from dijob.core.facts import find_condition, is_true
from dijob.core.membership.list_state import SUSPENDED
from dijob.reasons import AddressesReady, Failed, PeersReady, Running, Succeeded

# The cause of a restart without a loss: a container failed and restarts in its pod.
CRASHED: Final = "Crashed"
CAUSES: Final = (
    AddressesReady.PodLost.name,
    AddressesReady.PodDeleted.name,
    AddressesReady.PodFailed.name,
    AddressesReady.SandboxLost.name,
    AddressesReady.AddressChanged.name,
    AddressesReady.NotRestarted.name,
    AddressesReady.BrokerLost.name,
    AddressesReady.ListLost.name,
    AddressesReady.Scaled.name,
    AddressesReady.FailurePolicy.name,
    AddressesReady.ProgressStalled.name,
    CRASHED,
)
# Reasons for which a peer list becomes stale even though no rank has been lost. So the time until
# all ranks are Ready again is not a recovery time.
WISHED = frozenset({SUSPENDED, AddressesReady.Scaled.name})


@dataclass(frozen=True)
class JobEnd:
    """How a job ended: the type of the condition that became True, and its reason."""

    outcome: str
    reason: str


@dataclass(frozen=True)
class Milestones:
    """The transitions in one status change.

    `started` is the time (seconds) from the job's creation or resumption until it became Running.
    `recovered` is how long the recovery from the loss of a rank took, in seconds. A recovery begins
    when the first rank becomes unready, and ends when all ranks are Ready again. Each of the two is
    None if its transition did not happen. `restarts` counts restarts of ranks by cause.
    """

    started: float | None = None
    recovered: float | None = None
    restarts: Mapping[str, int] = field(default_factory=dict)
    finished: JobEnd | None = None


def find_milestones(meta: Metadata, old: Status, new: Status, now: datetime) -> Milestones:
    """Return the transitions between two stored statuses."""
    # Running stays True as long as any rank may be running with a correct peer list. So if Running
    # becomes True again, all ranks have restarted. That is a recovery rather than a start, unless
    # the job was suspended in between.
    begun = is_true(new, Running) and not is_true(old, Running)
    started = _is_start(old) if begun else False
    return Milestones(
        started=_seconds_since(old.resume_time or meta.creation_timestamp, now)
        if started
        else None,
        recovered=None if started else _recovery_seconds(old, new, now),
        restarts=_count_restarts(old, new),
        finished=_find_end(old, new),
    )


def _seconds_since(since: str, now: datetime) -> float | None:
    """Return the seconds since a timestamp. If the timestamp is in the future, because another
    machine's clock is ahead, the result is 0.
    """
    begin = parse_time(since)
    return max(0.0, (now - begin).total_seconds()) if begin else None


def _is_start(old: Status) -> bool:
    """Whether a job that becomes Running does so for the first time since its creation or
    resumption.
    """
    running = find_condition(old, Running)
    since = parse_time(running.last_transition_time) if running else None
    begin = parse_time(old.resume_time or old.start_time)
    return since is None or begin is None or since <= begin


def _recovery_seconds(old: Status, new: Status, now: datetime) -> float | None:
    """Return how many seconds a recovery from a loss took, counted from when the first rank became
    unready. Return None if the change does not end such a recovery.
    """
    before, loss = find_condition(old, PeersReady), new.last_renewal
    back = is_true(new, PeersReady) and not is_true(old, PeersReady)
    if not (back and before and loss) or new.ended or loss.reason in WISHED:
        return None
    since, lost = parse_time(before.last_transition_time), parse_time(loss.time)
    # A loss before `since` does not explain why ranks were not Ready.
    if since is None or lost is None or lost < since:
        return None
    return _seconds_since(before.last_transition_time, now)


def _count_restarts(old: Status, new: Status) -> dict[str, int]:
    # A loss counts once, however many ranks restart because of it.
    loss = new.last_renewal
    if loss and loss != old.last_renewal:
        return {} if loss.reason == SUSPENDED else {loss.reason: 1}
    failures = new.restarts - old.restarts
    return {CRASHED: failures} if failures > 0 and not new.ended else {}


def _find_end(old: Status, new: Status) -> JobEnd | None:
    if old.ended:
        return None
    found: list[Condition | None] = [find_condition(new, each) for each in (Failed, Succeeded)]
    return next((JobEnd(c.type, c.reason) for c in found if c and c.status == "True"), None)
