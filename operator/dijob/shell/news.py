"""What is remembered of a job's pods besides their status: their events, and since when the status
complains.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dijob.core.observed.complaints import is_retried
from dijob.core.observed.patience import left
from dijob.core.observed.pod_events import End
from dijob.core.observed.views import Pod


@dataclass
class News:
    """`due` is when the events of a pod, by its uid, are read again; `warnings` is the newest
    warning about it, `noticed` since when its status has a complaint that may pass. `causes` are
    the probes that ended containers ("": none did).
    """

    due: dict[str, datetime] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    noticed: dict[str, datetime] = field(default_factory=dict)
    causes: dict[End, str] = field(default_factory=dict)

    def saw_pods(self, pods: Collection[Pod], now: datetime) -> None:
        """Note who complains, and forget pods that are gone."""
        complaining = (pod.uid for pod in pods if is_retried(pod.complaint))
        self.noticed = {uid: self.noticed.get(uid, now) for uid in complaining}
        there = {pod.uid for pod in pods}
        self.due = {uid: at for uid, at in self.due.items() if uid in there}
        self.warnings = {uid: text for uid, text in self.warnings.items() if uid in there}
        self.causes = {end: cause for end, cause in self.causes.items() if end[0] in there}

    def wait(self, now: datetime) -> float:
        """Seconds until events are read again, or a complaint has lasted long enough."""
        noticed = ((now - since).total_seconds() for since in self.noticed.values())
        waits = [*((at - now).total_seconds() for at in self.due.values()), *map(left, noticed)]
        return min((seconds for seconds in waits if seconds > 0), default=math.inf)

    def move(self, by: timedelta) -> None:
        """Move all remembered times: the clock was set."""
        self.due = {uid: at + by for uid, at in self.due.items()}
        self.noticed = {uid: at + by for uid, at in self.noticed.items()}
