"""How long a complaint is held back that Kubernetes may resolve by itself.

A kubelet that misses something tries again: a ConfigMap that is created a second after the pods, a
claim that two nodes mount at once, a registry that is slow once. A message about it would be wrong
by the time that it is read, and its event stays for an hour.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from dijob.core.observed.complaints import is_retried
from dijob.core.observed.views import Pod

# A mount is tried again after 0.5, 1, 2 and 4 s: by now it has failed four times. A pull is tried
# again after 10 s only, but why a job cannot start is to be reported within 10 s.
RETRIED_SECONDS = 5.0


def left(seconds: float) -> float:
    """Seconds until a complaint is reported that is so many `seconds` old; 0 or less: now."""
    return RETRIED_SECONDS - seconds


def reported(pod: Pod, noticed: Mapping[str, datetime], now: datetime) -> Pod:
    """The pod without its complaint while that is held back; `noticed` is when the complaint of
    each pod, by its uid, was noticed.
    """
    since = noticed.get(pod.uid, now)
    if not is_retried(pod.complaint) or left((now - since).total_seconds()) <= 0:
        return pod
    return replace(pod, complaint="")
