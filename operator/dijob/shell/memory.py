"""What the operator remembers of a job between two passes; reconcile.py copies it into what a pass
observes, and the actor and the creator write into it. A new operator begins without: that costs
calls, delays a retry, and may cost a pod whose list nobody can prove (docs/decisions/007, 015).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dijob.api.model import DIJob
from dijob.api.parse import Parsed
from dijob.core.decide import changes
from dijob.core.membership.capacity import seconds_until_retry
from dijob.core.observed import creations
from dijob.core.observed.views import ARRIVAL, Creation, Pod, Refusal, Refused
from dijob.shell.news import News
from dijob.shell.reverted import Reverted


@dataclass
class Memory:
    """What is remembered of one job.

    The fields of the same names as in Observed (core/observed/views.py) are explained there.
    `reverted` are changes that were accepted and that something reverts (reverted.py).
    `absent` are the names of pods that are known not to exist, `unlabelled` of those whose labels
    somebody has taken away, and which get them back. `news` is what is known of pods besides their
    status (news.py). `last_write` is when the status was last written, in monotonic seconds.
    `dropped` are fields of the status that the API server has not kept: its CRD is older.
    """

    refusals: dict[str, Refusal] = field(default_factory=dict)
    reverted: Reverted = field(default_factory=Reverted)
    creations: dict[str, Creation] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    unlabelled: set[str] = field(default_factory=set)
    list_seen: dict[tuple[str, int], datetime] = field(default_factory=dict)
    reminded: dict[tuple[str, int], datetime] = field(default_factory=dict)
    news: News = field(default_factory=News)
    first_seen: datetime | None = None
    last_write: float = -1e9
    dropped: frozenset[str] = frozenset()
    _size: int = 0
    _parsed: Parsed | None = None

    def parse(self, body: Mapping[str, Any]) -> DIJob:
        """The job in this body, read once per version of it: most passes are about its pods.

        Raises SpecError like `parse_job`.
        """
        before, self._parsed = self._parsed, Parsed.of(body, self._parsed)
        job = self._parsed.job
        if before is not None and before.job.metadata.generation != job.metadata.generation:
            # What was wrong as it was written may be right now.
            self.refusals = {
                k: no for k, no in self.refusals.items() if no.why is not Refused.REJECTED
            }
            self.creations = {k: replace(one, rejected="") for k, one in self.creations.items()}
        if before is not None and before.job.status.list_number != job.status.list_number:
            self.reverted.new_list()
        return job

    def wants(self, job: DIJob, now: datetime) -> None:
        """Forget how often pods were created if the job itself removes pods: it is suspended, has
        another size (programs that cannot take or lose a member all start again in it), or gives
        its room back. They are no lost pods, so no back-off follows.
        """
        resized, self._size = job.spec.desired != self._size, job.spec.desired
        if resized or job.status.suspend_time or seconds_until_retry(job.status, now) > 0:
            self.creations.clear()

    def saw_lists(self, pods: Collection[Pod], now: datetime) -> None:
        """Note when a pod was first seen to have arrived, and when a list was first seen on a pod
        that is to act on it, by opening its gate or by restarting its process; forget what is done,
        and pods that are gone.
        """
        arrived = {(pod.uid, ARRIVAL) for pod in pods if pod.has_arrived}
        at_gate = {
            (pod.uid, pod.copy.address_list.number)
            for pod in pods
            if pod.containers.gated and pod.has_list
        }
        to_restart = {
            (pod.uid, pod.copy.renew_from)
            for pod in pods
            if pod.copy.renew_from > pod.containers.ended_for
        }
        self.list_seen = {
            key: self.list_seen.get(key, now) for key in arrived | at_gate | to_restart
        }
        self.reminded = {key: when for key, when in self.reminded.items() if key in self.list_seen}

    def saw_pods(self, pods: Collection[Pod], now: datetime) -> None:
        """Forget refusals and events about pods that are gone; keep what a node says of a pod that
        it does not admit, until one of that name has arrived.
        """
        for pod in pods:
            if (creation := self.creations.get(pod.name)) is None:
                continue
            if pod.failed and pod.placement.disrupted and not pod.has_started:
                self.creations[pod.name] = replace(creation, rejected=pod.complaint)
            elif pod.has_arrived and creation.rejected:
                self.creations[pod.name] = replace(creation, rejected="")
        there = {"", *(pod.uid for pod in pods)}
        self.refusals = {
            key: no for key, no in self.refusals.items() if changes.pod_uid(key) in there
        }
        self.reverted.saw_pods(there)
        self.news.saw_pods(pods, now)

    def created(self, name: str, now: datetime) -> None:
        """Count the creation of a pod of this name, or of another object, as "service/x"."""
        self.released.discard(name)
        self.creations[name] = creations.counted(self.creations.get(name), now)

    def release(self, name: str) -> None:
        """Note that a pod is deleted so that a lower rank finds a node: it is no lost pod."""
        self.released.add(name)
        self.creations.pop(name, None)

    def move(self, by: timedelta) -> None:
        """Move all remembered times: the clock was set, and they are as long ago as before."""
        self.reverted.move(by)
        for key, no in self.refusals.items():
            since = no.since and no.since + by
            self.refusals[key] = replace(no, retry_at=no.retry_at + by, since=since)
        self.creations = {
            name: replace(one, at=one.at + by) for name, one in self.creations.items()
        }
        self.list_seen = {key: at + by for key, at in self.list_seen.items()}
        self.reminded = {key: at + by for key, at in self.reminded.items()}
        self.news.move(by)
        self.first_seen = self.first_seen and self.first_seen + by


class Memories:
    """The memory of each job, by its uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Memory] = {}

    def of(self, uid: str) -> Memory:
        return self._by_uid.setdefault(uid, Memory())

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)

    def move(self, by: timedelta) -> None:
        """Move the times of all jobs."""
        for memory in self._by_uid.values():
            memory.move(by)
