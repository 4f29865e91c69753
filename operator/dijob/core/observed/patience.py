"""How long a complaint is held back that Kubernetes may resolve by itself.

A kubelet that misses something tries again: a ConfigMap that is created a second after the pods, a
claim that two nodes mount at once, a registry that is slow once. A message about it would be wrong
by the time that it is read, and its event stays for an hour.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from dijob.core.observed.complaints import PULL_REASONS, is_retried
from dijob.core.observed.views import Pod

# A mount is tried again after 0.5, 1, 2 and 4 s: by now it has failed four times.
RETRIED_SECONDS = 5.0
# A pull is tried again after 10 s: by now it has failed twice.
PULLED_AGAIN_SECONDS = 12.0


def left(complaint: str, seconds: float) -> float:
    """Seconds until a complaint is reported that is so many `seconds` old; 0 or less: now."""
    pull = PULL_REASONS[0] in complaint
    return (PULLED_AGAIN_SECONDS if pull else RETRIED_SECONDS) - seconds


def reported(pod: Pod, noticed: Mapping[str, datetime], now: datetime) -> Pod:
    """The pod without its complaint while that is held back; `noticed` is when the complaint of
    each pod, by its uid, was noticed.
    """
    since = noticed.get(pod.uid, now)
    if not is_retried(pod.complaint) or left(pod.complaint, (now - since).total_seconds()) <= 0:
        return pod
    return replace(pod, complaint="")
