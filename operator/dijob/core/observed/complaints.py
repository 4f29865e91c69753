"""Extracts why a pod does not start or run, as the cluster reports it, from its raw status and from
warning events about it.

The message is stable: a kubelet alternates between reasons for the same problem, and an event and
the status report it at different times. Both must give the same text, or the job's conditions would
change, and be written, every few seconds.
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
from dijob.core.observed.remedies import with_remedy
from dijob.core.observed.views import Pod

Body = Mapping[str, Any]

# The kubelet alternates between these two reasons.
PULL_REASONS = ("ImagePullBackOff", "ErrImagePull")
# Parts of a pull error that do not explain it.
PULL_NOISE = (*PULL_REASONS, "rpc error")
# All reasons for an image that cannot be used.
IMAGE_REASONS = (*PULL_REASONS, "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
# The first event only repeats the reason; the second one explains it.
_REPEATS = tuple(f"Error: {reason}" for reason in PULL_REASONS)
_NOT_PULLED = re.compile(r'Failed to pull image "([^"]+)": ')
_WAITS = re.compile(r"container \S+: (?!CrashLoopBackOff)")
# The container's name in the fieldPath of an event.
_ABOUT = re.compile(r"\{(.+)\}$")
# Waiting reasons of a normal start.
WAITING_IS_FINE = ("PodInitializing", "ContainerCreating", "")
# A kubelet retries what it cannot do yet: a ConfigMap may be created a second after the pods, two
# nodes may mount a claim at the same time, or a registry may be slow once. A message about such a
# problem would be outdated by the time it is read, and its event would stay for an hour. So the
# message is delayed. A mount is retried after 0.5, 1, 2 and 4 s, so it has failed four times by
# then. A pull is retried only after 10 s, but the reason why a job cannot start must be reported
# within 10 s.
RETRIED_SECONDS = 5.0


def pod_complaint(spec: Body, status: Body, main: str = "") -> str:
    """Return why the pod does not start or run, as the cluster reports it; "" if nothing is wrong.
    `main` is the name of the main container.
    """
    if status.get("phase") == "Failed":
        # The event about the same rejection does not have this prefix.
        message = str(status.get("message") or "").removeprefix(f"{REJECTED}: ")
        return _join_reason(status.get("reason"), message)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _join_reason(condition.get("reason"), condition.get("message"))
    given = status.get("containerStatuses") or ()
    containers: Iterable[Body] = (*(status.get("initContainerStatuses") or ()), *given)
    return next(
        (
            with_remedy(f"container {_user_container(c, given)}{text}")
            for c in containers
            if (text := _container_complaint(spec, c, main))
        ),
        "",
    )


def is_retried(complaint: str) -> bool:
    """Whether a complaint is about a container that waits, so that the kubelet will try again. The
    complaint about a container that has ended says how it ended.
    """
    return _WAITS.match(complaint) is not None


def event_warning(event: Body, main: str) -> str:
    """Return the message of an event about a pod with this main container; "" if it only repeats
    another event.

    A kubelet reports an image that it cannot pull in an event at once, and in the pod's status ten
    seconds later. The message is the same for both.
    """
    reason, message = event.get("reason"), str(event.get("message") or "")
    if message in _REPEATS:
        return ""
    if not (image := _NOT_PULLED.match(message)):
        return with_remedy(_join_reason(reason, message))
    about = _ABOUT.search(str((event.get("involvedObject") or {}).get("fieldPath") or ""))
    name = about[1] if about else main
    container = main if name == names.GATE_CONTAINER else name
    return f"container {container}: {_pull_failure(image[1], message[image.end() :])}"


def _user_container(container: Body, main: Iterable[Body]) -> str:
    """Return the name of a container for a message. The gate runs from the image of the user's
    container, so a problem with its image is reported for that container.
    """
    name, waiting = container.get("name", ""), (container.get("state") or {}).get("waiting") or {}
    if name != names.GATE_CONTAINER or waiting.get("reason") not in IMAGE_REASONS:
        return str(name)
    return str(
        next((c.get("name") for c in main if c.get("image") == container.get("image")), name)
    )


def _container_complaint(spec: Body, container: Body, main: str) -> str:
    """Return the complaint about a container, to be put after its name; "" if nothing is wrong."""
    # Only the launcher ends for a new peer list, and it runs in the main container.
    on_request = container.get("name") == main
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message") or ""
    last = (container.get("lastState") or {}).get("terminated")
    if reason in PULL_REASONS:
        return f": {_pull_failure(wanted_image(spec, container), message)}"
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
    """Return the image that the kubelet tries to pull. After `kubectl set image`, the status of the
    container still has the image with which it ran before, so the image comes from the spec.
    """
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    wanted = (c.get("image") for c in every if c.get("name") == container.get("name"))
    return str(next(wanted, None) or container.get("image") or "")


def _pull_failure(image: str, message: str) -> str:
    """Return the same message for both reasons between which the kubelet alternates. It names the
    image once.
    """
    parts = message.split(": ") if image else []
    cause = ": ".join(part for part in parts if image not in part and part not in PULL_NOISE)
    return _join_reason(f"{PULL_REASONS[0]}: image {image} cannot be pulled", cause)


def _join_reason(reason: str | None, message: str | None) -> str:
    parts = map(one_line, (reason or "", message or ""))
    return ": ".join(part for part in parts if part)


def seconds_until_report(seconds: float) -> float:
    """Return the time (seconds) until a complaint of this age (`seconds`) is reported; 0 or less:
    now.
    """
    return RETRIED_SECONDS - seconds


def with_due_complaint(pod: Pod, noticed: Mapping[str, datetime], now: datetime) -> Pod:
    """Return the pod, without its complaint while that is delayed. `noticed` is when the complaint
    of each pod was first seen, by uid.
    """
    since = noticed.get(pod.uid, now)
    if not is_retried(pod.complaint) or seconds_until_report((now - since).total_seconds()) <= 0:
        return pod
    return replace(pod, complaint="")
