"""The operator's memory of a job between two reconciliations. This memory is not stored.

The memory contains only what the operator can afford to lose. After a restart or a takeover, the
operator repeats some requests, and retries rejected requests earlier. In rare cases, it replaces a
pod whose peer list it cannot verify (docs/decisions/007, 015). Everything else is in the status.

The Observer copies the memory into the input of the plan. The Actor and the Creator write to it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dijob.api.model import DIJob
from dijob.api.parse import Parsed
from dijob.controller.observe.budget_reader import BudgetMemory
from dijob.controller.observe.engine_reader import EngineMemory
from dijob.controller.observe.pod_memory import PodMemory
from dijob.controller.observe.queue_reader import QueueMemory
from dijob.controller.observe.reverted import Reverted
from dijob.core.decide import changes
from dijob.core.membership.capacity import seconds_until_retry
from dijob.core.observed import creations
from dijob.core.observed.views import ARRIVAL, ApiRejection, Creation, Pod, RejectionCause


@dataclass
class JobMemory:
    """The memory of one job.

    Fields that have the same name in Observed (core/observed/views.py) are explained there.
    `reverted` contains accepted changes that something has reverted (reverted.py). `absent`
    contains the names of pods that are known not to exist. `unlabelled` contains the names of pods
    whose labels were removed and are being restored. `pods` contains what the operator knows about
    pods in addition to their status (pod_memory.py). `engine` contains what the operator knows
    about the engine's object for the job (engine_reader.py). `queue` describes the job's queue
    (queue_reader.py), and `budgets` its PodDisruptionBudgets (budget_reader.py).
    `manager_reported`: an event has already said which other controller manages the job.
    `last_write` is the time of the last status write in monotonic seconds. `dropped` contains the
    fields of the status that the apiserver drops, because its CRD is older than the operator.
    """

    rejections: dict[str, ApiRejection] = field(default_factory=dict)
    reverted: Reverted = field(default_factory=Reverted)
    creations: dict[str, Creation] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    unlabelled: set[str] = field(default_factory=set)
    list_seen: dict[tuple[str, int], datetime] = field(default_factory=dict)
    reminded: dict[tuple[str, int], datetime] = field(default_factory=dict)
    pods: PodMemory = field(default_factory=PodMemory)
    engine: EngineMemory = field(default_factory=EngineMemory)
    queue: QueueMemory = field(default_factory=QueueMemory)
    budgets: BudgetMemory = field(default_factory=BudgetMemory)
    manager_reported: bool = False
    first_seen: datetime | None = None
    last_write: float = -1e9  # long ago, so that the first write is not delayed
    dropped: frozenset[str] = frozenset()
    _size: int = 0
    _parsed: Parsed | None = None

    def parse(self, body: Mapping[str, Any]) -> DIJob:
        """Return the job in this body. Raises SpecError like `parse_job`."""
        # Most reconciliations are triggered by changes to pods, so the job is parsed only once per
        # version.
        before, self._parsed = self._parsed, Parsed.of(body, self._parsed)
        job = self._parsed.job
        if before is not None and before.job.metadata.generation != job.metadata.generation:
            # The spec has changed, so requests that were rejected as invalid may succeed now.
            self.rejections = {
                k: rejection
                for k, rejection in self.rejections.items()
                if rejection.why is not RejectionCause.REJECTED
            }
            self.creations = {k: replace(one, rejected="") for k, one in self.creations.items()}
        if before is not None and before.job.status.list_number != job.status.list_number:
            self.reverted.new_list()
        return job

    def wants(self, job: DIJob, now: datetime) -> None:
        """Reset the back-off of pod creations if the operator itself removed pods.

        The operator removes pods if the job is suspended or resized, or has released its capacity.
        If a resized job's programs do not support resizing, all ranks of the job are restarted.
        None of these pods were lost, so their replacement must not be delayed.
        """
        resized, self._size = job.spec.desired != self._size, job.spec.desired
        if resized or job.status.suspend_time or seconds_until_retry(job.status, now) > 0:
            self.creations.clear()

    def saw_lists(self, pods: Collection[Pod], now: datetime) -> None:
        """Record when a pod first had an address. If a pod has not acted on a peer list yet, also
        record when the list was first observed on the pod. A pod acts on a list by opening its gate
        or restarting its process. Forget the times of pods that are gone. Forget the time of a list
        when the pod has acted on this list.
        """
        arrived = {(pod.uid, ARRIVAL) for pod in pods if pod.has_arrived}
        # A reminder is due if a pod does not act on its list in time. No field of the pod records
        # when the list was written. So the time is measured from when this operator first observed
        # the list on the pod.
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
        """Forget rejections and events about pods that are gone.

        If a node did not admit a pod, the pod's message is kept until a pod of that name has an
        address. Otherwise, the reason would disappear with the pod, because a pod that is not
        admitted fails at once and is replaced.
        """
        for pod in pods:
            if (creation := self.creations.get(pod.name)) is None:
                continue
            if pod.failed and pod.placement.disrupted and not pod.has_started:
                self.creations[pod.name] = replace(creation, rejected=pod.complaint)
            elif pod.has_arrived and creation.rejected:
                self.creations[pod.name] = replace(creation, rejected="")
        # "" is for rejections that concern no existing pod, such as rejected creations.
        there = {"", *(pod.uid for pod in pods)}
        self.rejections = {
            key: rejection
            for key, rejection in self.rejections.items()
            if changes.pod_uid(key) in there
        }
        self.reverted.saw_pods(there)
        self.pods.saw_pods(pods, now)

    def created(self, name: str, now: datetime) -> None:
        """Count the creation of an object. `name` is the name of a pod; for other objects, it is
        the kind and the name, for example "service/NAME".
        """
        self.released.discard(name)  # the new pod was not released
        self.creations[name] = creations.counted(self.creations.get(name), now)

    def release(self, name: str) -> None:
        """Record that a pod is deleted in favor of a lower rank, so that the pod does not count
        as lost.
        """
        self.released.add(name)
        self.creations.pop(name, None)

    def move(self, by: timedelta) -> None:
        """After the clock has been set, shift all remembered times, so that durations stay the
        same.
        """
        self.reverted.move(by)
        for key, rejection in self.rejections.items():
            since = rejection.since and rejection.since + by
            self.rejections[key] = replace(rejection, retry_at=rejection.retry_at + by, since=since)
        self.creations = {
            name: replace(one, at=one.at + by) for name, one in self.creations.items()
        }
        self.list_seen = {key: at + by for key, at in self.list_seen.items()}
        self.reminded = {key: at + by for key, at in self.reminded.items()}
        self.pods.move(by)
        self.first_seen = self.first_seen and self.first_seen + by


class Memories:
    """The memories of all jobs by uid. A new job that reuses the name of an earlier job starts with
    an empty memory.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, JobMemory] = {}

    def of(self, uid: str) -> JobMemory:
        return self._by_uid.setdefault(uid, JobMemory())

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)

    def move(self, by: timedelta) -> None:
        """Shift the remembered times of all jobs."""
        for memory in self._by_uid.values():
            memory.move(by)
