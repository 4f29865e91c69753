"""The type of the rows in the table of engines. Each engine's file defines its own row.

A row is a pure description. The plan compares the row with the object that exists, and the
controller applies the difference. So an engine makes no decisions and sends no requests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet
from dijob.core.options import Options
from dijob.core.render.fields import Manifest, as_mapping, extend_list

Spec = Mapping[str, Any]


@dataclass(frozen=True)
class PodMarks:
    """What an engine adds to the pod of each rank.

    An engine can add labels, annotations, entries of the nodeSelector, tolerations, the names of
    scheduling gates, and other fields of the pod's spec.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    gates: tuple[str, ...] = ()

    def add_to(self, pod: Manifest) -> None:
        """Add the marks to a pod whose metadata is not shared with other pods."""
        pod["spec"] |= self.fields
        self.add_placement(pod["spec"])
        for key, added in (("labels", self.labels), ("annotations", self.annotations)):
            if added:
                pod["metadata"][key] = {**(pod["metadata"].get(key) or {}), **added}

    def add_placement(self, spec: Manifest) -> None:
        """Add the nodeSelector, the tolerations and the gates to a pod's spec."""
        if self.node_selector:
            spec["nodeSelector"] = {**as_mapping(spec.get("nodeSelector")), **self.node_selector}
        for name, added in (
            ("tolerations", [dict(one) for one in self.tolerations]),
            ("schedulingGates", [{"name": gate} for gate in self.gates]),
        ):
            if added:
                spec[name] = extend_list(spec.get(name), *added)


NO_MARKS: Final = PodMarks()


@dataclass(frozen=True)
class Membership:
    """The gang that a new pod joins. `name` is the name of the engine's object, or the name that
    the object would have. `count` is how many ranks must have nodes at the same time.
    """

    job: DIJob
    pod_set: PodSet
    name: str
    count: int


@dataclass(frozen=True)
class EngineRow:
    """One engine. An engine has at most one object per job. This object is created each time the
    job starts, and exists until the job is suspended.

    `kind` is the kind of this object ("": the engine has none), `plural` its resource, and `api`
    the API version that the cluster must serve. `manifest` returns the object, given the job, the
    object's name, and how many ranks must have nodes at the same time. `count` reads this number
    from the spec of an existing object, and `resized` returns the change that sets it. `marks`
    returns what the engine adds to a pod. Some fields of the object come from the job's spec, and
    the API server may remove one of them. `dropped` returns the name of the removed field in the
    job's spec, followed by the reason, or "" if no field was removed. `switch` says how an
    administrator enables the API.

    `scheduler` is the name under which the scheduler is usually installed ("": the pods keep their
    own scheduler). `counts_succeeded`: pods that have succeeded count toward this number as long as
    they exist. `queues` is the API version and the resource of the engine's cluster-scoped queues
    ("": the engine has none that a client can read). `queue` is the name of the default queue.
    `queue_state` is the state in which a queue gives nodes to jobs ("": queues have no state).
    """

    kind: str = ""
    plural: str = ""
    api: str = ""
    manifest: Callable[[DIJob, str, int, Options], Manifest] = lambda _job, _name, _count, _opt: {}
    count: Callable[[Spec], int] = lambda _spec: 0
    resized: Callable[[int], Manifest] = lambda _count: {}
    marks: Callable[[Membership], PodMarks] = lambda _of: NO_MARKS
    dropped: Callable[[DIJob, Spec], str] = lambda _job, _spec: ""
    switch: str = ""
    scheduler: str = ""
    counts_succeeded: bool = False
    queues: tuple[str, str] = ("", "")
    queue: str = ""
    queue_state: str = ""

    @property
    def full_kind(self) -> str:
        """The kind with its API version, because several engines have a kind named PodGroup."""
        return f"{self.api}/{self.kind}"

    def key(self, name: str) -> str:
        """Return the key of the object with this name, as used for rejections."""
        return object_key(self.api, self.kind, name)


def object_key(api: str, kind: str, name: str) -> str:
    """Return the key of an engine's object ("podgroup.scheduling.k8s.io/x"), as kubectl names
    it.
    """
    return f"{kind.lower()}.{api.partition('/')[0]}/{name}"
