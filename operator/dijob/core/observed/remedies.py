"""Remedies for Kubernetes errors that name the operator's part of a pod instead of the cause.

The launcher and the gate run before the user's program, so the cluster reports an error for them
even if the template causes it. An API error can name a container that the operator has added, so
the author of the job cannot find it in the template. Each remedy names the field to set.
"""

import re
from typing import Final

from dijob import names

# Errors from init systems that run only as PID 1: s6-overlay, runit, sysvinit, systemd.
_NOT_PROCESS_1: Final = re.compile(
    r"\b(?:as|be|not|needs|requires)(?: the)? (?:pid|process(?: (?:no\.?|number|id))?) ?#?1\b"
    r"|\(PID 1\)",
    re.IGNORECASE,
)
_REMEDIES: Final = (
    (_NOT_PROCESS_1, 'set launcher: "Off", because the launcher runs as process 1'),
    (
        re.compile(r'ImageVolumeMountFailed|failed to (?:mkdir|stat) ""|mount\.HostPath is empty'),
        "the node's container runtime cannot mount images: if the template has no image volume, set"
        " the chart value launcher.delivery to InitContainer",
    ),
    (
        re.compile(r"\bexec\b.*: argument list too long"),
        "too large for Linux: remove `enableServiceLinks: true` from the template, because this"
        " setting adds variables for each Service",
    ),
    (
        re.compile(r"\bexec\b.*: invalid argument"),
        "a NUL character in command, args or env of the template",
    ),
)
OURS = re.compile(rf"\b(?:{names.LAUNCHER_CONTAINER}|{names.GATE_CONTAINER})\b")
FOLLOW = (
    f"correct the main container: {names.GATE_CONTAINER} and {names.LAUNCHER_CONTAINER} copy its"
    " resources and securityContext"
)
# The wording of API errors about quotas and limit ranges.
RESOURCES = re.compile(r"\bquota\b|\b(?:usage|ratio) per \b")
REDIS = (
    "ask an administrator to set the chart value redis.resources, or set messageQueue.host to a"
    " server of your own"
)


def find_remedy(text: str) -> str:
    """Return the remedy for an error with this text; "" if none is known."""
    return next((what for pattern, what in _REMEDIES if pattern.search(text)), "")


def with_remedy(text: str) -> str:
    """Return the text, followed by its remedy unless the text already contains it."""
    known = find_remedy(text)
    return text if not known or known in text else f"{text} ({known})"


def about_rank(message: str) -> str:
    """Return the API error about the pod of a rank. If the error names a container that the
    operator has added to the pod, the message begins with advice.
    """
    return f"{FOLLOW}: {message}" if OURS.search(message) else message


def about_redis(message: str) -> str:
    """Return the API error about the pod of the job's Redis server.

    If the error is about resources, the message begins with advice, because no field of the job
    sets the resources of this pod.
    """
    return f"{REDIS}: {message}" if RESOURCES.search(message) else message
