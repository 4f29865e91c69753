"""A stand-in for Kueue: it admits Workloads that fit into its quota, and evicts Workloads.

It implements what the operator depends on: the conditions of a Workload, its admission, and the
rules for changes to its status. These work as in Kueue's own controllers
(pkg/scheduler/scheduler.go, pkg/workload/evict). `make kueue` runs the real Kueue.
"""

from dataclasses import dataclass
from typing import Any

from dijob import names
from dijob.api.status import format_time

from simulator.cluster import NAMESPACE, Cluster
from simulator.objects import Body, No, Selector, Target

QUEUE = "team-a"
PLENTY = 1_000_000
EXCLUDED = (
    "spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together"
)
LABEL = {"kueue.x-k8s.io/queue-name": QUEUE}


@dataclass
class Kueue:
    """One queue with quota for some pods, and the flavor that it assigns. `slices` says whether a
    Workload can replace a smaller one (the feature gate ElasticJobsViaWorkloadSlices). With `dies`,
    Kueue is killed each time after it admits a replacement and before it marks the smaller
    Workload as finished.
    """

    cluster: Cluster
    quota: int = PLENTY
    flavor: str = "default"
    updates: tuple[Body, ...] = ()
    stopped: bool = False
    slices: bool = True
    dies: bool = False

    def __post_init__(self) -> None:
        server = self.cluster.server
        made: Body = {
            "metadata": {"name": self.flavor, "namespace": ""},
            "spec": {
                "nodeLabels": {"pool": self.flavor},
                "tolerations": [{"key": "pool", "operator": "Exists"}],
            },
        }
        target = Target("resourceflavors", "", self.flavor)
        if target not in server.objects:
            server.put(target, made)
            queue: Body = {"metadata": {"name": QUEUE, "namespace": NAMESPACE}, "status": {}}
            server.put(Target("localqueues", NAMESPACE, QUEUE), queue)
        server.admission.append(self._check_new)

    def work(self) -> None:
        """Admit the Workloads that fit, in order of priority and age."""
        if self.stopped:  # Kueue itself is down
            return
        found = self.workloads()
        for body in sorted(found, key=lambda one: -int(one["spec"].get("priority", 0))):
            if is_true(body, "Finished") or body["spec"].get("active") is False:
                continue
            if is_true(body, "QuotaReserved") or condition(body, "Requeued") == "False":
                continue
            self._admit(body)

    def _check_new(self, target: Target, body: Body) -> None:
        """Reject a new Workload that Kueue's webhook would reject."""
        if target.plural != "workloads":
            return
        if self.stopped:
            raise No(500, 'failed calling webhook "vworkload.kb.io": connection refused')
        minimum = any("minCount" in one for one in body["spec"]["podSets"])
        if self.slices and minimum and _notes(body).get(names.KUEUE_ELASTIC) == "true":
            raise No(403, f'admission webhook "vworkload.kb.io" denied the request: {EXCLUDED}')

    def workloads(self) -> list[Body]:
        """Return all Workloads."""
        return self.cluster.server.find(Selector(Target("workloads")))

    def only(self) -> Body:
        """Return the only Workload."""
        (found,) = self.workloads()
        return found

    def is_lost(self) -> bool:
        """Whether somebody has deleted the Workload with which the job ran. The operator may create
        a larger one before it learns of the deletion.
        """
        found = self.workloads()
        return all(
            names.KUEUE_REPLACES in _notes(one)
            and not is_true(one, "QuotaReserved")
            and self._replaced(one) is None
            for one in found
        )

    def used(self) -> int:
        """Return how many pods have quota now, as Kueue counts them (pkg/workload). This is the
        number of assigned pods, but at most the number of pods that have not given their quota
        back.
        """
        return sum(map(quota_of, self.workloads()))

    def bound(self, succeeded: frozenset[int]) -> int:
        """Return how many ranks the job may have, including the succeeded ones. The job must not
        have a Redis server.
        """
        (body,) = [one for one in self.workloads() if is_true(one, "QuotaReserved")]
        given = body["status"]["admission"]["podSetAssignments"][-1]
        *fixed, wanted = body["spec"]["podSets"]
        first = sum(int(one["count"]) for one in fixed)
        size, back = int(given["count"]), _reclaimable(body).get(given["name"], 0)
        done = sum(first <= rank < first + size for rank in succeeded)
        return first + size - max(0, back - done - (int(wanted["count"]) - size))

    def evict(self, reason: str = "Preempted", name: str = "") -> None:
        """Evict a Workload. It keeps its quota until its pods are gone."""
        for body in self.workloads():
            if is_true(body, "Finished"):
                continue
            if is_true(body, "QuotaReserved") and name in ("", body["metadata"]["name"]):
                self._set(body, {}, Evicted=("True", reason, "to make room for another workload"))

    def activate(self, active: bool) -> None:
        """Deactivate the Workloads, or activate them again."""
        for body in self.workloads():
            self.cluster.server.patch(_target(body), {"spec": {"active": active}})
        if not active:
            self.evict("Deactivated")
            return
        for body in self.workloads():
            self._set(body, {}, Requeued=("True", "Reactivated", "reactivated"))

    def requeue(self) -> None:
        """End the back-off of an evicted Workload."""
        for body in self.workloads():
            if condition(body, "Requeued") == "False":
                self._set(body, {}, Requeued=("True", "BackoffFinished", "the back-off is over"))

    def recover(self) -> None:
        """Remove everything that prevents an admission."""
        self.quota, self.stopped = PLENTY, False
        if any(body["spec"].get("active") is False for body in self.workloads()):
            self.activate(True)
        self.requeue()

    def _admit(self, body: Body) -> None:
        smaller = self._replaced(body)
        free = self.quota - self.used() + (quota_of(smaller) if smaller else 0)
        sets = body["spec"]["podSets"]
        # A pod in reclaimablePods has given its quota back. Kueue neither requests nor assigns
        # quota for such a pod.
        back = _reclaimable(body)
        sets = [{**one, "count": one["count"] - back.get(one["name"], 0)} for one in sets]
        wanted = sum(one["count"] for one in sets)
        least = sum(one.get("minCount", one["count"]) for one in sets)
        if least > free:
            text = f"insufficient unused quota for pods in flavor {self.flavor}, more needed"
            if condition(body, "QuotaReserved") != "False":
                self._set(body, {}, QuotaReserved=("False", "WaitingForQuota", text))
            return
        missing = max(0, wanted - free)
        assigned = [
            {
                "name": one["name"],
                "flavors": {"cpu": self.flavor},
                "count": one["count"] - (missing if "minCount" in one else 0),
            }
            for one in sets
        ]
        status: dict[str, Any] = {
            "admission": {"clusterQueue": "cluster", "podSetAssignments": assigned}
        }
        if self.updates:
            status["admissionChecks"] = [
                {"name": "check", "state": "Ready", "podSetUpdates": list(self.updates)}
            ]
        self._set(
            body,
            status,
            QuotaReserved=("True", "QuotaReserved", "reserved"),
            Admitted=("True", "Admitted", "admitted"),
            Evicted=("False", "QuotaReserved", "admitted again"),
        )
        if smaller and not self.dies:
            self._set(smaller, {}, Finished=("True", "WorkloadSliceReplaced", "replaced"))

    def _replaced(self, body: Body) -> Body | None:
        """Return the Workload that this one replaces; None if the queue's cache does not contain
        the replaced Workload.
        """
        key = _notes(body).get(names.KUEUE_REPLACES, "")
        found = (
            one
            for one in self.workloads()
            if f"{one['metadata']['namespace']}/{one['metadata']['name']}" == key
        )
        old = next(found, None)
        there = self.slices and old and is_true(old, "QuotaReserved")
        return old if there and not is_true(old or {}, "Finished") else None

    def _set(self, body: Body, status: dict[str, Any], **changes: tuple[str, str, str]) -> None:
        known = {one["type"]: one for one in (body.get("status") or {}).get("conditions") or ()}
        now = format_time(self.cluster.clock.now())
        for type_, (value, reason, message) in changes.items():
            if type_ == "Evicted" and value == "False" and type_ not in known:
                continue
            known[type_] = {
                "type": type_,
                "status": value,
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
        patch = {"status": {**status, "conditions": list(known.values())}}
        target = _target(body)
        self.cluster.server.patch(Target(*_parts(target), "status"), patch)


def _notes(body: Body) -> dict[str, str]:
    return body["metadata"].get("annotations") or {}


def condition(body: Body, type_: str) -> str:
    """Return the status of a Workload's condition; "" if the Workload has no such condition."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == type_), "")


def is_true(body: Body, type_: str) -> bool:
    """Whether a Workload's condition is True."""
    return condition(body, type_) == "True"


def check_status(before: Body, after: Body) -> None:
    """Check a change by the operator against the rules of Kueue's webhook."""
    old, new = before.get("status") or {}, after.get("status") or {}
    if is_true(before, "QuotaReserved") and is_true(after, "QuotaReserved"):
        assert old.get("admission") == new.get("admission"), "the admission has changed"
        counts = {one["name"]: one["count"] for one in new.get("reclaimablePods") or ()}
        for one in old.get("reclaimablePods") or ():
            assert counts.get(one["name"], -1) >= one["count"], "reclaimablePods has decreased"
    if is_true(after, "QuotaReserved"):
        assert new.get("admission"), "a reservation without an admission"
    else:
        assert not new.get("admission"), "an admission without a reservation"
    sizes = {one["name"]: one["count"] for one in after["spec"]["podSets"]}
    for one in new.get("reclaimablePods") or ():
        assert one["count"] <= sizes[one["name"]], "more reclaimable pods than the pod set has"


def quota_of(body: Body) -> int:
    """Return the number of pods for which a Workload holds quota."""
    if not is_true(body, "QuotaReserved") or is_true(body, "Finished"):
        return 0
    status = body["status"]
    back = _reclaimable(body)
    sizes = {one["name"]: one["count"] for one in body["spec"]["podSets"]}
    given = status["admission"]["podSetAssignments"]
    return sum(
        min(int(one["count"]), sizes[one["name"]] - back.get(one["name"], 0)) for one in given
    )


def _reclaimable(body: Body) -> dict[str, int]:
    found = (body.get("status") or {}).get("reclaimablePods") or ()
    return {one["name"]: int(one["count"]) for one in found}


def _target(body: Body) -> Target:
    meta = body["metadata"]
    return Target("workloads", meta["namespace"], meta["name"])


def _parts(target: Target) -> tuple[str, str, str]:
    return target.plural, target.namespace, target.name
