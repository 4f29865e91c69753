"""What the operator remembers of a job between passes. To forget it costs calls, never the
truth.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dijob.api.model import DIJob
from dijob.api.parse import Parsed
from dijob.core.decide import changes
from dijob.core.decide.requeue import FORGIVE_SECONDS
from dijob.core.observed.views import Creation, Pod, Refusal, Refused


@dataclass
class Memory:
    """One job's: refusals by kind and name or by change, creations by pod name, names of pods that
    gave their node back, the number of the list that a pod (by uid) was given, names of pods that
    are known not to be there, and of those whose labels are to be put back, when a list was seen on
    a pod and when its kubelet was reminded of it, when its events were read last and the newest
    warning among them by pod uid, when status was written.
    """

    refusals: dict[str, Refusal] = field(default_factory=dict)
    creations: dict[str, Creation] = field(default_factory=dict)
    given_back: set[str] = field(default_factory=set)
    given: dict[str, int] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    unlabelled: set[str] = field(default_factory=set)
    told: dict[tuple[str, int], datetime] = field(default_factory=dict)
    nudged: dict[tuple[str, int], datetime] = field(default_factory=dict)
    asked: dict[str, datetime] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    last_write: float = -1e9
    _parsed: Parsed | None = None

    def parse(self, body: Mapping[str, Any]) -> DIJob:
        """The job in this body, read once per version of it: most passes are about its pods.
        SpecError as in Parsed.
        """
        before, self._parsed = self._parsed, Parsed.of(body, self._parsed)
        job = self._parsed.job
        if before is not None and before.job.metadata.generation != job.metadata.generation:
            # What was wrong as it was written may be right now.
            self.refusals = {
                k: no for k, no in self.refusals.items() if no.why is not Refused.REJECTED
            }
        return job

    def saw_lists(self, pods: Collection[Pod], now: datetime) -> None:
        """Note when a list was first seen on a pod that is to act on it; what is past is
        forgotten.
        """
        at_gate = {
            (pod.uid, pod.copy.address_list.number)
            for pod in pods
            if pod.containers.gated and pod.has_list
        }
        asked = {
            (pod.uid, pod.copy.renew_from)
            for pod in pods
            if pod.copy.renew_from > pod.containers.renewed
        }
        self.told = {key: self.told.get(key, now) for key in at_gate | asked}
        there = {pod.uid for pod in pods}
        self.given = {uid: number for uid, number in self.given.items() if uid in there}
        self.nudged = {key: when for key, when in self.nudged.items() if key in self.told}

    def saw_pods(self, pods: Iterable[Pod]) -> None:
        """Forget what was refused and heard of pods that are gone."""
        there = {"", *(pod.uid for pod in pods)}
        self.refusals = {
            key: no for key, no in self.refusals.items() if changes.pod_uid(key) in there
        }
        self.asked = {uid: when for uid, when in self.asked.items() if uid in there}
        self.warnings = {uid: text for uid, text in self.warnings.items() if uid in there}

    def created(self, name: str, now: datetime) -> None:
        """A pod of this name has been created: count it, or start anew after a long quiet time."""
        self.given_back.discard(name)
        old = self.creations.get(name)
        fresh = old is None or now - old.at > timedelta(seconds=FORGIVE_SECONDS)
        self.creations[name] = Creation(1 if old is None or fresh else old.count + 1, now)


class Memories:
    """By the job's uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Memory] = {}

    def of(self, uid: str) -> Memory:
        return self._by_uid.setdefault(uid, Memory())

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
