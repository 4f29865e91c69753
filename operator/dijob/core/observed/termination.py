"""Explains why a pod that is being deleted still exists: which container is still running, until
when it may run, and which finalizers block the deletion.

The operator waits for such pods after a loss, a scale-down, a suspension or a deletion, and
`kubectl dijob doctor` reports them. Both use the same messages.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dijob.api.status import parse_time

Body = Mapping[str, Any]

# Added to the grace period, because the kubelet may merely be late.
SLACK_SECONDS = 5.0
# The maximum number of names that a message lists; the others are only counted.
NAMED = 3


@dataclass(frozen=True)
class Termination:
    """Why a pod that is being deleted still exists.

    `until` is when its grace period of `grace_seconds` ends, in Kubernetes' format ("": the pod is
    not being deleted). `running` are the containers that are still running, on `node`.
    """

    until: str = ""
    grace_seconds: int = 0
    running: tuple[str, ...] = ()
    finalizers: tuple[str, ...] = ()
    node: str = ""

    def reason(self, now: datetime) -> str:
        """Return what the deletion is waiting for; "" if nothing is known."""
        if self.running:
            return self._of_containers(now)
        if self.finalizers:
            return held_by(self.finalizers)
        end = parse_time(self.until)
        if end and self.node and (now - end).total_seconds() > SLACK_SECONDS:
            return (
                f"its grace period ended at {self.until}, and node {self.node} has not removed the"
                " pod"
            )
        return ""

    def _of_containers(self, now: datetime) -> str:
        # A kubelet reports the pod's containers as terminated only after all of them have
        # terminated. So some containers that are listed here may have ended already, which is why
        # the message refers to the node's last report.
        one = len(self.running) == 1
        state = f"{'container' if one else 'containers'} {list_names(self.running)}"
        state += f" {'was' if one else 'were'} still running as of the node's last report"
        end = parse_time(self.until)
        if end and (now - end).total_seconds() > SLACK_SECONDS:
            return (
                f"{state}, although its grace period of {self.grace_seconds} s ended at"
                f" {self.until}: check node {self.node}"
            )
        return f"{state}, and may run until {self.until} (grace period: {self.grace_seconds} s)"


NOT_DELETED = Termination()


def parse_termination(body: Body) -> Termination:
    """Read the termination of a raw pod; NOT_DELETED if it is not being deleted."""
    meta, status = body["metadata"], body.get("status") or {}
    if not meta.get("deletionTimestamp"):
        return NOT_DELETED
    return Termination(
        until=str(meta["deletionTimestamp"]),
        grace_seconds=int(meta.get("deletionGracePeriodSeconds") or 0),
        running=tuple(
            str(each.get("name"))
            for kind in ("initContainerStatuses", "containerStatuses")
            for each in status.get(kind) or ()
            if "running" in (each.get("state") or {})
        ),
        finalizers=tuple(map(str, meta.get("finalizers") or ())),
        node=str((body.get("spec") or {}).get("nodeName") or ""),
    )


def held_by(finalizers: Iterable[str]) -> str:
    """Describe foreign finalizers. The text completes a sentence about the object whose deletion
    they block.
    """
    given = tuple(finalizers)
    if len(given) == 1:
        return (
            f"finalizer {given[0]} blocks its deletion until the controller that set the finalizer"
            " removes it"
        )
    return (
        f"finalizers {list_names(given)} block its deletion until the controllers that set the"
        " finalizers remove them"
    )


def list_names(given: tuple[str, ...]) -> str:
    """Return a list of the names as text. After NAMED names, it says only how many more follow."""
    more = len(given) - NAMED
    return ", ".join(given[:NAMED]) + (f" and {more} more" if more > 0 else "")
