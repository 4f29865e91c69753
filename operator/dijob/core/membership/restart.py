"""In-place restart of the ranks that connect to a lost rank.

This module says which of these ranks can restart in their own pods, and how far each restart has
progressed. These restarts do not count as failures (failures.py).

The annotation `renew-from`, which a pod gets together with the next peer list, requests a restart
of the pod's process. The launcher stops the program and exits with 85. Then the kubelet restarts
the container, with the new list in its environment. The pod keeps its node, its devices and its
emptyDirs, and the job does not wait for a new pod (docs/decisions/009-in-place-restart.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dijob.api.status import Charge, Renewal, Status, format_time
from dijob.core.members import Gang
from dijob.core.observed.views import Observed, Pod, seconds_since
from dijob.pod import RENEWAL_CODE

# The kubelet restarts a container at once if its last termination is at least this long ago.
# Otherwise, it waits for 10 s or more (1.34, pkg/kubelet: MaxContainerBackOff of 300 s, reset after
# twice that). If the kubelet would wait, a new pod is faster.
CALM_SECONDS = 600.0
# Seconds that a restart may take beyond the grace period before the pod is re-created. This leaves
# time to remind a kubelet that has missed the list (address_writes.REMIND_SECONDS).
SLACK_SECONDS = 15.0
# A process that started after the request and has run for at least this time has the new list.
# Otherwise, its launcher would have stopped it earlier.
SETTLED_SECONDS = 5.0


@dataclass(frozen=True)
class Restarts:
    """The ranks, grouped by the progress of their in-place restart.

    `possible`: the ranks that can restart in their pods. `unrequested`: the ranks whose process has
    the stale list, and for which no restart has been requested. `pending`: the ranks whose restart
    has been requested but has not happened yet. `overdue`: the pending ranks whose restart has
    taken too long.
    """

    possible: frozenset[int]
    unrequested: frozenset[int]
    pending: frozenset[int]
    overdue: frozenset[int]


def restarts_of(
    gang: Gang, observed: Observed, status: Status, renewed: frozenset[int], now: datetime
) -> Restarts:
    """Return the progress of each rank. `renewed` are the ranks that restart because of the last
    loss. The pods must be verified (address_list.py).
    """
    pods, last = observed.pods, status.last_renewal
    requested = frozenset(
        rank for rank, pod in pods.items() if is_pending(pod, observed, status, now)
    )
    # With torch and OneFlow, a rendezvous must not include a process of the old world that is still
    # exiting. So no process restarts in its pod: the pods are re-created, and the new pods start
    # only when all old pods are gone.
    able = (
        rank
        for rank, pod in pods.items()
        if not gang.runtime_of(rank).traits.fixed_membership and can_restart(pod, now)
    )
    return Restarts(
        possible=frozenset(able) - requested,
        unrequested=unrequested_restarts(pods, renewed, last) if last else frozenset(),
        pending=requested,
        overdue=frozenset(
            rank for rank in requested if seconds_left(pods[rank], observed, now) <= 0
        ),
    )


def can_restart(pod: Pod, now: datetime) -> bool:
    """Whether the process can restart in its pod: the pod is healthy, and the kubelet would restart
    the container without a back-off.
    """
    addresses = pod.copy.address_list.addresses
    sound = pod.containers.sandbox and not (pod.deleting or pod.failed or pod.containers.succeeded)
    calm = (
        not pod.containers.ended or (seconds_since(pod.containers.ended, now) or 0.0) > CALM_SECONDS
    )
    return (
        pod.made.restartable
        and sound
        and calm
        and pod.rank < len(addresses)
        and addresses[pod.rank] == pod.ip
    )


def is_pending(pod: Pod, observed: Observed, status: Status, now: datetime) -> bool:
    """Whether the pod's process still runs with the stale list although its restart has been
    requested. A process that has never started (its image is still being pulled) has no list, and
    one that has succeeded will not restart.
    """
    if pod.containers.succeeded or not pod.has_started:
        return False
    renew_from = pod.copy.renew_from
    if renew_from <= pod.containers.ended_for or renew_from <= _last_counted(pod, status):
        return False
    requested = observed.list_seen.get((pod.uid, pod.copy.renew_from), now)
    # A process that has started after the request either has the new list or is stopped by its
    # launcher within seconds. Timestamps have a resolution of one second, so a process that started
    # in the same second counts as pending. If it does have the new list, its pod is re-created
    # unnecessarily, which is rare.
    return (
        pod.containers.started <= format_time(requested)
        or (seconds_since(pod.containers.started, now) or 0.0) < SETTLED_SECONDS
    )


def seconds_left(pod: Pod, observed: Observed, now: datetime) -> float:
    """Return the seconds until a pod with a pending restart is re-created; 0 or less: now. The time
    is counted from the request, or from the last start of the pod's process if that was later.
    """
    requested = observed.list_seen.get((pod.uid, pod.copy.renew_from), now)
    waited = (now - requested).total_seconds()
    if pod.containers.started > format_time(requested):
        waited = seconds_since(pod.containers.started, now) or 0.0
    return pod.made.grace + SLACK_SECONDS - waited


def unrequested_restarts(
    pods: Mapping[int, Pod], ranks: frozenset[int], last: Renewal
) -> frozenset[int]:
    """Return those of the `ranks` for which no restart has been requested yet. All `ranks` must
    restart because of the `last` loss. The pods of the returned ranks still have the list that this
    loss made stale, or an older list.
    """
    had = (pod for rank in ranks if (pod := pods.get(rank)) and pod.has_list)
    return frozenset(pod.rank for pod in had if pod.copy.address_list.number <= last.list_number)


def uncharged_ends(pod: Pod, before: Charge, new: int) -> int:
    """Return the number of requested restarts (0 or 1) among a pod's new terminations.

    `new` is the number of new terminations, and `before` is what has been counted so far.
    Requested restarts do not count as failures.

    Each request excuses one termination. The launcher's message alone is not sufficient, because a
    program can write the same message. Only a container's last termination is visible, and
    sometimes not even that. So if there are several new terminations, or the last one is not
    recorded, one of them is assumed to be the requested restart. The same is assumed for a
    termination with the launcher's exit code but without its message. The launcher cannot write the
    message if the disk is full.
    """
    if pod.copy.renew_from <= before.renewed:
        return 0
    seen = pod.containers.ended_for > before.renewed
    return int(seen or new > 1 or pod.containers.unrecorded or _ended_without_a_word(pod))


def answered_request(pod: Pod, before: Charge) -> int:
    """Return the revision of the request that caused an excused termination.

    This is not always the newest request. Another rank may be lost after the launcher has read a
    request. In that case, the pod may get the next request before the operator observes that the
    program has exited. The restarted program may have only the list of the first request. It must
    then exit again for the second request.
    """
    ended_for, renew_from = pod.containers.ended_for, pod.copy.renew_from
    return min(ended_for, renew_from) if ended_for > before.renewed else renew_from


def _ended_without_a_word(pod: Pod) -> bool:
    """Whether the main container last exited with the launcher's exit code, but without the message
    that names the revision.
    """
    end = pod.containers.last_end
    return end is not None and end.exit_code == RENEWAL_CODE and not pod.containers.ended_for


def _last_counted(pod: Pod, status: Status) -> int:
    """Return the highest revision among this pod's requested restarts that have been counted. It is
    0 if none has been counted.
    """
    return max(
        (charge.renewed for charge in status.restarts_seen if charge.uid == pod.uid), default=0
    )
