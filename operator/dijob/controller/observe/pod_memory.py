"""The operator's memory of a job's pods: their events, and when their status began to report a
problem.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dijob.core.observed.complaints import is_retried, seconds_until_report
from dijob.core.observed.pod_events import End, Probe, probe_of
from dijob.core.observed.views import Pod


@dataclass
class PodMemory:
    """Knowledge about the pods of one job, by pod uid.

    `due` is the time when the events of a pod are read again. `warnings` has the newest warning
    among these events. `noticed` is the time when the status of a pod began to report a problem
    that may resolve on its own. `causes` maps the termination of a container to the reason why the
    kubelet killed it, or to "" if no event shows that the kubelet killed it. `probes` has the
    results of the probes that keep pods of the job from being Ready.
    """

    due: dict[str, datetime] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    noticed: dict[str, datetime] = field(default_factory=dict)
    causes: dict[End, str] = field(default_factory=dict)
    probes: dict[Probe, str] = field(default_factory=dict)

    def saw_pods(self, pods: Collection[Pod], now: datetime) -> None:
        """Record which pods report a problem, and forget pods that are gone."""
        complaining = (pod.uid for pod in pods if is_retried(pod.complaint))
        self.noticed = {uid: self.noticed.get(uid, now) for uid in complaining}
        # The memory lives as long as the job, whose pods may be replaced any number of times.
        there = {pod.uid for pod in pods}
        self.due = {uid: at for uid, at in self.due.items() if uid in there}
        self.warnings = {uid: text for uid, text in self.warnings.items() if uid in there}
        self.causes = {end: cause for end, cause in self.causes.items() if end[0] in there}
        failing = {probe_of(pod) for pod in pods}
        self.probes = {probe: text for probe, text in self.probes.items() if probe in failing}

    def read_again(self, uid: str, now: datetime, seconds: float) -> None:
        """Schedule the next read of a pod's events in `seconds` seconds.

        If another pod's read is already scheduled for the second half of this period, both pods'
        events are read at that time. Without this rule, each pod of a job that cannot start would
        cause its own reconciliation.
        """
        latest = max((at for other, at in self.due.items() if other != uid), default=now)
        together = (latest - now).total_seconds()
        shared = seconds / 2 <= together <= seconds
        self.due[uid] = latest if shared else now + timedelta(seconds=seconds)

    def wait(self, now: datetime) -> float:
        """Return the seconds until events are read again, or until a problem has lasted long enough
        to be reported; infinity if neither is due.
        """
        noticed = ((now - since).total_seconds() for since in self.noticed.values())
        waits = [
            *((at - now).total_seconds() for at in self.due.values()),
            *map(seconds_until_report, noticed),
        ]
        # The reconciliation that calls this method has handled everything that was due by now.
        return min((seconds for seconds in waits if seconds > 0), default=math.inf)

    def move(self, by: timedelta) -> None:
        """After the clock has been set, shift all remembered times."""
        self.due = {uid: at + by for uid, at in self.due.items()}
        self.noticed = {uid: at + by for uid, at in self.noticed.items()}
