"""A job in each phase, with the health that kstatus and Argo CD must show for it."""

from dataclasses import dataclass

from dijob.core.facts import Fact
from dijob.reasons import (
    AddressesReady,
    Failed,
    Invalid,
    PeersReady,
    PodsCreated,
    Running,
    Succeeded,
    Suspended,
    Terminating,
)

from samples.builders import Body
from samples.summaries import having

CREATED = (Fact(PodsCreated.AllCreated), Fact(AddressesReady.Published))
RUNS = (*CREATED, Fact(Running.Begun, "all 3 ranks are running"), Fact(PeersReady.AllRanksReady))


@dataclass(frozen=True)
class HealthSample:
    """The facts about a job, and its health. `argo` is the health that Argo CD's script returns.

    `seen` is the generation of the spec that the operator has seen; the current one is 1.
    """

    facts: tuple[Fact, ...]
    kstatus: str
    argo: str
    deleted: bool = False
    seen: int = 1

    def body(self) -> Body:
        """Return the job as the API server stores it."""
        meta: Body = {"name": "job", "namespace": "ns", "generation": 1}
        if self.deleted:
            meta["deletionTimestamp"] = "2026-11-25T12:00:00Z"
        status: Body = {"observedGeneration": self.seen}
        if self.facts:
            made = having(*self.facts, generation=self.seen)
            status |= made.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        kind = {"apiVersion": "diengine.opendilab.org/v2alpha1", "kind": "DIJob"}
        return {**kind, "metadata": meta, "status": status}


def _waiting(*facts: Fact) -> HealthSample:
    return HealthSample(facts, "InProgress", "Progressing")


def _stalled(*facts: Fact) -> HealthSample:
    return HealthSample(facts, "Failed", "Degraded")


def _healthy(*facts: Fact) -> HealthSample:
    return HealthSample(facts, "Current", "Healthy")


HEALTH_SAMPLES: dict[str, HealthSample] = {
    # The CRD sets this generation when a job is created.
    "new": HealthSample((), "InProgress", "Progressing", seen=-1),
    "a spec that the operator has not seen": HealthSample(
        RUNS, "InProgress", "Progressing", seen=0
    ),
    "pending": _waiting(Fact(PodsCreated.Creating), Fact(AddressesReady.Gathering)),
    "no node has room": _waiting(
        Fact(PodsCreated.AllCreated), Fact(AddressesReady.AddressMissing, "0/3 nodes")
    ),
    "starting": _waiting(*CREATED, Fact(Running.Starting)),
    "an image cannot be pulled": _waiting(*CREATED, Fact(Running.Blocked, "ErrImagePull")),
    "a quota is full": _waiting(Fact(PodsCreated.PodForbidden, "exceeded quota")),
    "running": _healthy(*RUNS),
    "a rank restarts": _healthy(*RUNS, Fact(PeersReady.Renewing, "rank 1 is lost")),
    "all ranks restart": _waiting(Fact(AddressesReady.PodLost), Fact(Running.Renewing)),
    "suspending": _waiting(Fact(Running.Suspended), Fact(Suspended.Suspending)),
    "suspended": HealthSample(
        (Fact(Running.Suspended), Fact(Suspended.Suspended)), "Current", "Suspended"
    ),
    "queued": _waiting(Fact(Running.Suspended), Fact(Suspended.Queued)),
    "resumed": _healthy(*RUNS, Fact(Suspended.Resumed)),
    "being deleted": HealthSample(
        (*RUNS, Fact(Terminating.WaitsForPods)), "Terminating", "Healthy", deleted=True
    ),
    "succeeded": _healthy(Fact(Running.Finished), Fact(Succeeded.AllRanksSucceeded, "all ranks")),
    "failed": _stalled(Fact(Running.Finished), Fact(Failed.BackoffLimitExceeded, "1 failure")),
    "a deadline": _stalled(Fact(Running.Starting), Fact(Failed.StartupDeadlineExceeded, "late")),
    "an invalid spec": _stalled(Fact(Invalid.SpecInvalid, "spec.x: no")),
    "an invalid change of a running job": _stalled(*RUNS, Fact(Invalid.TemplateChanged, "no")),
    "an error of the operator": _stalled(*RUNS, Fact(Invalid.OperatorError, "a bug")),
    "a valid spec again": _healthy(*RUNS, Fact(Invalid.Valid)),
    "rejected pods": _stalled(Fact(PodsCreated.PodRejected, "spec.containers[0].image: no")),
}
