"""Extracts the reason that the cluster reports if a pod does not start or run.

The reason comes from the pod's raw status and from the warning events about the pod.

The message must be stable. A kubelet alternates between two reasons for the same problem. In
addition, the pod's status and an event report the problem at different times. If the texts
differed, the job's conditions would change and be written every few seconds.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from dijob import names
from dijob.api.printed import one_line
from dijob.core.observed.containers import renewed_for
from dijob.core.observed.disruptions import REJECTED
from dijob.core.observed.endings import read_ending
from dijob.core.observed.mounting import image_volumes
from dijob.core.observed.remedies import with_remedy
from dijob.core.observed.scheduling import group_message
from dijob.core.observed.views import Pod

Body = Mapping[str, Any]

# The kubelet alternates between these two reasons.
PULL_REASONS = ("ImagePullBackOff", "ErrImagePull")
# Parts of a pull error that do not explain it.
PULL_NOISE = (*PULL_REASONS, "rpc error")
# All waiting reasons of a container whose image cannot be used.
IMAGE_REASONS = (*PULL_REASONS, "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
# Messages of events that only repeat the reason. Another event (_NOT_PULLED) says why the pull has
# failed.
_REPEATS = tuple(f"Error: {reason}" for reason in PULL_REASONS)
_NOT_PULLED = re.compile(r'Failed to pull image "([^"]+)": ')
_WAITS = re.compile(r"(?:container|volume) \S+: (?!CrashLoopBackOff)")
# The container's name in the fieldPath of an event.
_ABOUT = re.compile(r"\{(.+)\}$")
# Waiting reasons of a normal start.
WAITING_IS_FINE = ("PodInitializing", "ContainerCreating", "")
# Some operations fail at first and succeed when the kubelet retries them. A ConfigMap may be
# created a second after the pods, two nodes may mount a claim at the same time, or a registry may
# be slow for a moment. A message about such a problem would be outdated by the time it is read, and
# its event would stay for an hour. So the message is delayed. A mount is retried after 0.5, 1, 2
# and 4 s, so a mount that is reported has failed four times. A pull is retried only after 10 s, but
# the reason why a job cannot start must be reported within 10 s.
RETRIED_SECONDS = 5.0


def pod_complaint(spec: Body, status: Body, main: str = "") -> str:
    """Return the reason that the cluster reports if the pod does not start or run; "" if nothing is
    wrong. `main` is the name of the main container.
    """
    if status.get("phase") == "Failed":
        # Remove this prefix, because the event about the same rejection does not have it.
        message = str(status.get("message") or "").removeprefix(f"{REJECTED}: ")
        return _join_reason(status.get("reason"), message)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = str(condition.get("message") or "")
            return _join_reason(condition.get("reason"), group_message(spec, message))
    given = status.get("containerStatuses") or ()
    containers: Iterable[Body] = (*(status.get("initContainerStatuses") or ()), *given)
    return next(
        (
            with_remedy(f"{_subject(spec, c, given)}{text}")
            for c in containers
            if (text := _container_complaint(spec, c, main))
        ),
        "",
    )


def is_retried(complaint: str) -> bool:
    """Whether a complaint is about a waiting container, which the kubelet will try to start again.
    The complaint about a container that has ended says how it ended.
    """
    return _WAITS.match(complaint) is not None


def event_warning(event: Body, main: str, volumes: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the message of an event about a pod; "" if the event only repeats another one.

    `main` is the name of the pod's main container, and `volumes` are its image volumes as (image,
    name) pairs.

    If a kubelet cannot pull an image, an event reports this at once, and the pod's status reports
    it ten seconds later. Both result in the same message.
    """
    reason, message = event.get("reason"), str(event.get("message") or "")
    if message in _REPEATS:
        return ""
    if not (image := _NOT_PULLED.match(message)):
        return with_remedy(_join_reason(reason, message))
    about = _ABOUT.search(str((event.get("involvedObject") or {}).get("fieldPath") or ""))
    if not about and (volume := dict(volumes).get(image[1])):
        return f"volume {volume}: {_pull_failure(image[1], message[image.end() :])}"
    name = about[1] if about else main
    container = main if name == names.GATE_CONTAINER else name
    return f"container {container}: {_pull_failure(image[1], message[image.end() :])}"


def _subject(spec: Body, container: Body, main: Iterable[Body]) -> str:
    """Return the subject of a message about a container: the container, or an image volume whose
    image cannot be pulled. If a volume's image cannot be pulled, the kubelet reports the failure
    for the containers that mount the volume.
    """
    volume = _missing_volume(spec, container)
    return f"volume {volume[1]}" if volume else f"container {_user_container(container, main)}"


def _missing_volume(spec: Body, container: Body) -> tuple[str, str] | None:
    """Return the volume whose image cannot be pulled, as a pair (image, name of the volume). Return
    None if there is no such volume, or if the container's own image cannot be pulled.
    """
    waiting = (container.get("state") or {}).get("waiting") or {}
    message, own = str(waiting.get("message") or ""), wanted_image(spec, container)
    if waiting.get("reason") not in IMAGE_REASONS or (own and own in message):
        return None
    return next((each for each in image_volumes(spec) if each[0] and each[0] in message), None)


def _user_container(container: Body, main: Iterable[Body]) -> str:
    """Return the name by which a message refers to a container. The gate uses the image of the
    user's container, so a problem with this image is reported for that container.
    """
    name, waiting = container.get("name", ""), (container.get("state") or {}).get("waiting") or {}
    if name != names.GATE_CONTAINER or waiting.get("reason") not in IMAGE_REASONS:
        return str(name)
    return str(
        next((c.get("name") for c in main if c.get("image") == container.get("image")), name)
    )


def _container_complaint(spec: Body, container: Body, main: str) -> str:
    """Return a container's complaint, to be appended to its name; "" if nothing is wrong."""
    # Only the launcher exits in order to restart with a new peer list, and it runs in the main
    # container.
    on_request = container.get("name") == main
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message") or ""
    last = (container.get("lastState") or {}).get("terminated")
    if reason in PULL_REASONS:
        return f": {_pull_failure(unpulled_image(spec, container), message)}"
    if reason == "CrashLoopBackOff" and last:
        words = read_ending(spec, container, last).words
        return f" {words}, and restarts after a back-off (CrashLoopBackOff)"
    if reason not in WAITING_IS_FINE:
        return f": {_join_reason(reason, message)}"
    ended = state.get("terminated")
    if ended and ended.get("exitCode") != 0 and not (on_request and renewed_for(ended)):
        return f" {read_ending(spec, container, ended).words}"
    return ""


def wanted_image(spec: Body, container: Body) -> str:
    """Return the image that the kubelet tries to pull. After `kubectl set image`, the container's
    status still shows the previous image, so the image comes from the spec.
    """
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    wanted = (c.get("image") for c in every if c.get("name") == container.get("name"))
    return str(next(wanted, None) or container.get("image") or "")


def unpulled_image(spec: Body, container: Body) -> str:
    """Return the image that keeps a container from starting: its own, or that of a volume."""
    volume = _missing_volume(spec, container)
    return volume[0] if volume else wanted_image(spec, container)


def _pull_failure(image: str, message: str) -> str:
    """Return the message about a failed pull. The kubelet alternates between two reasons, but this
    message stays the same. It names the image only once.
    """
    parts = message.split(": ") if image else []
    cause = ": ".join(part for part in parts if image not in part and part not in PULL_NOISE)
    return _join_reason(f"{PULL_REASONS[0]}: image {image} cannot be pulled", cause)


def _join_reason(reason: str | None, message: str | None) -> str:
    parts = map(one_line, (reason or "", message or ""))
    return ": ".join(part for part in parts if part)


def seconds_until_report(seconds: float) -> float:
    """Return how many seconds remain until a complaint of age `seconds` is reported; 0 or less:
    now.
    """
    return RETRIED_SECONDS - seconds


def with_due_complaint(pod: Pod, noticed: Mapping[str, datetime], now: datetime) -> Pod:
    """Return the pod, without its complaint if the complaint is still being delayed. `noticed` maps
    the uid of each pod to the time when its complaint was first seen.
    """
    since = noticed.get(pod.uid, now)
    if not is_retried(pod.complaint) or seconds_until_report((now - since).total_seconds()) <= 0:
        return pod
    return replace(pod, complaint="")
