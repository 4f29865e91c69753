"""Delays complaints about pods that Kubernetes may resolve by itself.

A kubelet retries what it cannot do yet: a ConfigMap may be created a second after the pods, two
nodes may mount a claim at the same time, or a registry may be slow once. A message about it would
be outdated by the time it is read, and its event stays for an hour.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from dijob.core.observed.complaints import is_retried
from dijob.core.observed.views import Pod

# A mount is retried after 0.5, 1, 2 and 4 s, so it has failed four times by then. A pull is retried
# only after 10 s, but the reason why a job cannot start must be reported within 10 s.
RETRIED_SECONDS = 5.0


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
