"""Remembers what the page has seen of a job: progress, phases, revisions and recent failures.

The cluster stores only the last value of each. No I/O: the caller provides the time.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from dijob.api.status import format_time
from dijob.client import Job, RankPod
from dijob.pod import RENEWAL_CODE

# A longer curve is thinned to every second point, so that the curve of a job that runs for days
# fits into memory.
MOST_POINTS: Final = 1000
MOST_STEPS: Final = 200
# How long a rank is shown as failed. The rank's container may be running again within a second,
# before a user notices the failure.
FELL_SECONDS: Final = 4.0


@dataclass(frozen=True)
class SeenValue:
    """A value and the time when it was first seen."""

    time: str
    value: str


@dataclass
class PageMemory:
    """What the page has seen of one job since the time `since`."""

    since: str
    points: list[dict[str, Any]] = field(default_factory=list)
    phases: list[SeenValue] = field(default_factory=list)
    lists: list[SeenValue] = field(default_factory=list)

    def see(self, job: Job, now: datetime) -> None:
        """Record a state of the job."""
        _record_step(self.phases, job.phase, now)
        _record_step(self.lists, str(job.status.list_number), now)
        if (progress := job.progress) is None:
            return
        point = {
            "time": progress.time or progress.written or format_time(now),
            "iteration": progress.iteration,
            "step": progress.env_step,
            "return": progress.episode_return,
        }
        # The same report arrives again when anything else in the job changes.
        if not self.points or self.points[-1] != point:
            self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self.points = thin_curve(self.points)


@dataclass
class JobMemories:
    """What has been seen of several jobs, by key. If there are more than `most` jobs, the least
    recently used one is forgotten.
    """

    most: int
    _known: dict[str, PageMemory] = field(default_factory=dict)

    def find(self, key: str, now: datetime) -> PageMemory:
        """Return the memory of a job. The memory is empty if the job is new."""
        found = self._known.pop(key, None) or PageMemory(format_time(now))
        # A dict keeps the order of insertion, so the first key is the one to forget.
        self._known[key] = found
        if len(self._known) > self.most:
            del self._known[next(iter(self._known))]
        return found

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other jobs."""
        self._known = {key: one for key, one in self._known.items() if key in keys}


@dataclass
class Ends:
    """Remembers which ranks failed, and when (in seconds of the caller's clock)."""

    _restarts: dict[str, int] = field(default_factory=dict)
    _fell: dict[str, float] = field(default_factory=dict)

    def see(self, pods: Iterable[RankPod], now: float) -> frozenset[int]:
        """Record the pods, and return the ranks that failed in the last FELL_SECONDS."""
        found = set[int]()
        for pod in pods:
            before = self._restarts.get(pod.uid, pod.restarts)
            self._restarts[pod.uid] = pod.restarts
            # An exit for a re-rendezvous is not a failure.
            if pod.restarts > before and pod.last_exit not in (None, 0, RENEWAL_CODE):
                self._fell[pod.uid] = now
            if now - self._fell.get(pod.uid, -FELL_SECONDS) < FELL_SECONDS:
                found.add(pod.rank)
        return frozenset(found)


def thin_curve(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every second point of a curve, and the last point."""
    return points[::2] + ([] if len(points) % 2 else points[-1:])


def _record_step(steps: list[SeenValue], value: str, now: datetime) -> None:
    # The number is limited, because a faulty job can alternate between two phases for days.
    if not steps or steps[-1].value != value:
        steps.append(SeenValue(format_time(now), value))
        del steps[:-MOST_STEPS]
