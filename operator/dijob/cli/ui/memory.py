"""What the command has seen of a job since it began: progress, phases, lists, and programs that
have just ended badly. The cluster keeps the last of each. Pure: the caller gives the time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from dijob.api.status import timestamp
from dijob.client import Job, RankPod
from dijob.pod import RENEWAL_CODE

# A curve of more has every second point of it left out.
MOST_POINTS: Final = 1000
MOST_STEPS: Final = 200
# How long a program that ended badly is shown so: its container may run again within a second.
FELL_SECONDS: Final = 4.0


@dataclass(frozen=True)
class Step:
    """A value that was seen first at a time."""

    time: str
    value: str


@dataclass
class Memory:
    """What was seen of one job."""

    since: str
    points: list[dict[str, Any]] = field(default_factory=list)
    phases: list[Step] = field(default_factory=list)
    lists: list[Step] = field(default_factory=list)

    def see(self, job: Job, now: datetime) -> None:
        """Take up a state of the job."""
        _step(self.phases, job.phase, now)
        _step(self.lists, str(job.status.list_number), now)
        if (progress := job.progress) is None:
            return
        point = {
            "time": progress.time or progress.written or timestamp(now),
            "iteration": progress.iteration,
            "step": progress.env_step,
            "return": progress.episode_return,
        }
        if not self.points or self.points[-1] != point:
            self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self.points = thinned(self.points)


@dataclass
class Ends:
    """Which ranks' programs were seen to end badly, and when (seconds of any one clock)."""

    _restarts: dict[str, int] = field(default_factory=dict)
    _fell: dict[str, float] = field(default_factory=dict)

    def see(self, pods: Iterable[RankPod], now: float) -> frozenset[int]:
        """Take up the pods; the ranks whose program has ended badly within FELL_SECONDS."""
        found = set[int]()
        for pod in pods:
            before = self._restarts.get(pod.uid, pod.restarts)
            self._restarts[pod.uid] = pod.restarts
            if pod.restarts > before and pod.last_exit not in (None, 0, RENEWAL_CODE):
                self._fell[pod.uid] = now
            if now - self._fell.get(pod.uid, -FELL_SECONDS) < FELL_SECONDS:
                found.add(pod.rank)
        return frozenset(found)


def thinned(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every second point of a curve, with its last one."""
    return points[::2] + ([] if len(points) % 2 else points[-1:])


def _step(steps: list[Step], value: str, now: datetime) -> None:
    if not steps or steps[-1].value != value:
        steps.append(Step(timestamp(now), value))
        del steps[:-MOST_STEPS]
