"""Messages that say what each rank is waiting for, grouped by cause (grouping.py).

Each rank is reported with the most specific cause that is known. API errors come first, then
complaints by the cluster, and then the general state of the pod.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dijob import names
from dijob.core.members import Gang, format_count
from dijob.core.observed import remedies
from dijob.core.observed.complaints import PULL_REASONS
from dijob.core.observed.creations import lost_until, paused_until
from dijob.core.observed.grouping import group_causes
from dijob.core.observed.views import ApiRejection, Observed, Pod, RejectionCause, seconds_since
from dijob.reasons import PodsCreated

# How long a crash is reported as the reason why a rank is not Ready. After that, a more likely
# reason is that the restarted program is not listening.
CRASHED_SECONDS = 60.0

# A container that has run for less than this time without being Ready is still starting.
STARTS_SECONDS = 10.0

LAUNCHER_IMAGE_REMEDY = (
    "set the chart value launcher.image to an image that the nodes can pull; for a private"
    " registry the template also needs imagePullSecrets"
)

# The error itself differs for each pod. The operator's log has the first of these errors.
NOT_MOUNTED = (
    "its node cannot mount the launcher's image, so its pod is re-created with an init container"
    " (the operator's log has the error)"
)

REFUSED_REASONS = {
    RejectionCause.TAKEN: PodsCreated.PodNameTaken,
    RejectionCause.TERMINATING: PodsCreated.WaitingForOldPod,
    RejectionCause.REJECTED: PodsCreated.PodRejected,
    RejectionCause.FORBIDDEN: PodsCreated.PodForbidden,
    RejectionCause.UNAVAILABLE: PodsCreated.ApiUnavailable,
}


@dataclass(frozen=True)
class Expected:
    """Known reasons why ranks are not Ready. `restarting` are the ranks whose in-place restart has
    been requested. `usual` is a normal reason why a running program may not be Ready now. It is ""
    if no such reason is known, and then the message refers to the program's log.
    """

    restarting: Container[int] = ()
    usual: str = ""


NOTHING_EXPECTED = Expected()


def without_address(gang: Gang, ranks: Iterable[int], observed: Observed, now: datetime) -> str:
    """Return why each of these ranks has no address."""
    return group_causes(gang, ranks, lambda rank: _why_no_address(gang, rank, observed, now))


def not_ready(
    gang: Gang,
    ranks: Iterable[int],
    observed: Observed,
    now: datetime,
    expected: Expected = NOTHING_EXPECTED,
) -> str:
    """Return why each of these ranks is not Ready."""
    return group_causes(gang, ranks, lambda rank: _why_not_ready(rank, observed, now, expected))


def rank_trouble(rank: int, observed: Observed, now: datetime) -> str:
    """Return what keeps a rank from being Ready; "" if it is only starting."""
    pod = observed.pods.get(rank)
    if pod is None:
        return "its pod is gone"
    if hint := _cluster_hint(pod, observed):
        return hint
    main = pod.containers
    crashed = (
        main.ended
        and not main.ended_for
        and (seconds_since(main.ended, now) or 0.0) < CRASHED_SECONDS
    )
    end = main.last_end
    return f"{end.program} {end.words}, and is restarting" if crashed and end else ""


def not_admitted(gang: Gang, rank: int, observed: Observed) -> str:
    """Return why a node does not admit the pods of a rank; "" if it does.

    A pod that a node does not admit fails at once and is re-created repeatedly. The reason is
    remembered, so the condition does not change while no pod exists.
    """
    creation = observed.creations.get(gang.member(rank).name)
    return creation.rejected if creation else ""


def describe_rejections(
    gang: Gang, ranks: Iterable[int], observed: Observed
) -> tuple[PodsCreated, str] | None:
    """Return the reason and the message for the pods whose creation the API server rejected; None
    if it rejected none.
    """
    refused = {
        rank: no
        for rank in ranks
        if (no := observed.rejections.get(f"pod/{gang.member(rank).name}")) is not None
        # The message "waiting for the old pod" explains less than the reason why the node did not
        # admit that pod.
        and not (no.why is RejectionCause.TERMINATING and not_admitted(gang, rank, observed))
    }
    if not refused:
        return None
    first = next(iter(refused.values()))
    message = group_causes(gang, refused, lambda rank: _api_error(refused[rank]))
    return REFUSED_REASONS[first.why], message


def describe_pauses(gang: Gang, ranks: Iterable[int], observed: Observed, now: datetime) -> str:
    """Return a message that says which ranks' pods will be re-created after a back-off, and when;
    "" if there are none.
    """
    until = {
        rank: due
        for rank in ranks
        if (due := paused_until(observed.creations.get(gang.member(rank).name), now))
    }
    return group_causes(gang, until, lambda rank: f"its pod {lost_until(until[rank])}")


def old_pod(pod: Pod, now: datetime) -> str:
    """Return why the old pod of a rank still exists."""
    why = pod.placement.termination.reason(now)
    what = "a pod that has its name but was not created by the operator" if pod.made.foreign else ""
    return f"{what or 'its old pod'} is still terminating" + (f": {why}" if why else "")


def still_ending(pods: Sequence[Pod], now: datetime) -> str:
    """Return how many pods are still terminating, and what the first of them is waiting for."""
    ending = f"{format_count(len(pods), 'pod')} still terminating"
    held = [(pod.name, why) for pod in pods if (why := pod.placement.termination.reason(now))]
    if not held:
        return ending
    name, why = held[0]
    return f"{ending} (pod {name}: {why})"


def _why_no_address(gang: Gang, rank: int, observed: Observed, now: datetime) -> str:
    pod, name = observed.pods.get(rank), gang.member(rank).name
    rejected = not_admitted(gang, rank, observed)
    if pod is None:
        refused = observed.rejections.get(f"pod/{name}")
        if refused and not (rejected and refused.why is RejectionCause.TERMINATING):
            return _api_error(refused)
        if name in observed.room.released:
            return "its pod was deleted to free a node for a lower rank"
        return rejected or "its pod is being created"
    if pod.unmountable:
        return NOT_MOUNTED
    if pod.deleting:
        return rejected if rejected and not pod.has_started else old_pod(pod, now)
    if pod.has_list:
        return "its pod has a stale peer list and is being replaced"
    if problem := _cluster_hint(pod, observed):
        return problem
    if rejected:
        return rejected
    if pod.ip:
        # The pod's status does not say whether the image has been pulled.
        image = f"the image {pod.made.image}"
        return f"its node has not started its container yet, and may still be pulling {image}"
    return "its node is starting its pod" if pod.scheduled else "its pod is waiting for a node"


def _api_error(refused: ApiRejection) -> str:
    """Return the API error about the pod of a rank. Advice is added only to an error about the
    pod's content. The message about an old pod lists the containers that are still running, so it
    may name the operator's containers. It needs no advice even then.
    """
    about_content = refused.why in (RejectionCause.REJECTED, RejectionCause.FORBIDDEN)
    return remedies.about_rank(refused.message) if about_content else refused.message


def _why_not_ready(rank: int, observed: Observed, now: datetime, expected: Expected) -> str:
    pod = observed.pods.get(rank)
    if pod and rank in expected.restarting and pod.containers.started:
        return (
            f"its program has up to {pod.made.grace} s to exit, and then restarts with the new"
            " peer list"
        )
    if problem := rank_trouble(rank, observed, now):
        return problem
    if pod and pod.ready:
        return "it has not received the newest peer list yet"
    if pod and pod.unready and _is_unusual(pod.unready.since, now):
        return pod.unready.text
    if pod and pod.containers.started:
        # The launcher logs the cause: the program is not listening yet, or cannot reach a peer.
        hint = expected.usual or f"kubectl logs {pod.name} may show why"
        return f"its program is running but not Ready: {hint}"
    return "its program has exited" if pod and pod.containers.ended else "it is starting"


def _is_unusual(began: str, now: datetime) -> bool:
    """Whether a state that began at this time is too old to be part of a normal start. An unknown
    time is treated as too old.
    """
    seconds = seconds_since(began, now)
    return seconds is None or seconds >= STARTS_SECONDS


def _cluster_hint(pod: Pod, observed: Observed) -> str:
    """Return the cluster's complaint or warning about the pod. If the operator's own image is the
    problem, add advice, because users cannot know where that image is configured.
    """
    text = pod.complaint or observed.warnings.get(pod.uid, "")
    # The init container and the image volume have the same name.
    if names.LAUNCHER_CONTAINER in text and PULL_REASONS[0] in text:
        return f"{text} (the operator's own image: {LAUNCHER_IMAGE_REMEDY})"
    return text
