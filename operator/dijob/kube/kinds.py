"""The kinds of objects that the operator uses, with their API paths and the required permissions.

This module is the single list of permissions. A test checks that the
chart's RBAC rules grant exactly these permissions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from dijob import names
from dijob.core.observed.parse import parse_pod
from dijob.core.observed.policies import parse_policy
from dijob.core.observed.queue_views import Workload
from dijob.core.observed.services import parse_service
from dijob.core.observed.views import Child, Pod
from dijob.core.observed.workloads import parse_workload
from dijob.core.render import budget
from dijob.core.render.scheduling import ENGINES, kueue

# Watch only objects that the operator created.
SELECTOR: Final = f"{names.MANAGED_BY}={names.MANAGER}"


@dataclass(frozen=True)
class ObjectKind:
    """One kind of object. `plural` is the resource in paths and in RBAC, and `verbs` are the
    permissions that the operator needs. `view` converts an object for the store; None if the store
    does not hold this kind.
    """

    name: str
    plural: str
    verbs: str
    version: str = "v1"
    view: Callable[[Mapping[str, Any]], Pod | Child | Workload] | None = None

    @property
    def group(self) -> str:
        """The API group as RBAC names it; "" is the core group."""
        return self.version.partition("/")[0] if "/" in self.version else ""

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of an object. If `name` is "", return the path of the collection in the
        namespace. If `namespace` is "" as well, return the path of the collection in all
        namespaces.
        """
        root = f"/{'apis' if self.group else 'api'}/{self.version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")


JOBS: Final = ObjectKind(names.KIND, names.PLURAL, "get list watch patch delete", names.API_VERSION)
JOB_STATUS: Final = ObjectKind(names.KIND, f"{names.PLURAL}/status", "patch", names.API_VERSION)
# The CRD has no subresource `finalizers`, but the admission plugin
# OwnerReferencesPermissionEnforcement requires this permission for owner references with
# blockOwnerDeletion (docs/decisions/042).
JOB_FINALIZERS: Final = ObjectKind(
    names.KIND, f"{names.PLURAL}/finalizers", "update", names.API_VERSION
)
PODS: Final = ObjectKind("Pod", "pods", "get list watch create delete patch", view=parse_pod)
SERVICES: Final = ObjectKind("Service", "services", "get list watch create", view=parse_service)
# The operator watches network policies only if each job has its own.
POLICIES: Final = ObjectKind(
    "NetworkPolicy", "networkpolicies", "get create", "networking.k8s.io/v1", view=parse_policy
)
# The budgets of jobs are not watched (controller/observe/budget_reader.py).
BUDGETS: Final = ObjectKind(
    budget.KIND, "poddisruptionbudgets", "get create patch delete", version=budget.API
)
# The objects of Kueue. The operator watches only the Workloads, and only if it uses Kueue.
WORKLOADS: Final = ObjectKind(
    kueue.KIND,
    kueue.PLURAL,
    "get list watch create delete patch",
    version=kueue.API,
    view=parse_workload,
)
WORKLOAD_STATUS: Final = ObjectKind(kueue.KIND, f"{kueue.PLURAL}/status", "patch", kueue.API)
LOCAL_QUEUES: Final = ObjectKind("LocalQueue", "localqueues", "get", kueue.API)
CLUSTER_QUEUES: Final = ObjectKind("ClusterQueue", "clusterqueues", "get", kueue.API)
FLAVORS: Final = ObjectKind("ResourceFlavor", "resourceflavors", "get", kueue.API)
WORKLOAD_PRIORITIES: Final = ObjectKind(
    "WorkloadPriorityClass", "workloadpriorityclasses", "get", kueue.API
)
POD_PRIORITIES: Final = ObjectKind(
    "PriorityClass", "priorityclasses", "get", "scheduling.k8s.io/v1"
)
EVENTS: Final = ObjectKind("Event", "events", "get list create patch")
# Leases are used for claims (names.CLAIM) and, in the operator's namespace, for leader election.
# Leases are not in KINDS, because separate RBAC rules grant their permissions.
LEASES: Final = ObjectKind("Lease", "leases", "get create patch", "coordination.k8s.io/v1")

KINDS: Final = (JOBS, JOB_STATUS, JOB_FINALIZERS, PODS, SERVICES, POLICIES, BUDGETS, EVENTS)
# Additional permissions if each job has its own NetworkPolicy.
ISOLATING: Final = (replace(POLICIES, verbs="list watch patch"),)
# The kinds of objects that belong to a job and that the operator reads together with the job's
# pods, keyed by the field `kind`.
CHILDREN: Final = {kind.name: kind for kind in (PODS, SERVICES, POLICIES)}
# Additional permissions if the operator uses Kueue: in the namespaces of the jobs, and in the whole
# cluster.
QUEUEING: Final = (WORKLOADS, WORKLOAD_STATUS, LOCAL_QUEUES)
QUEUEING_CLUSTER: Final = (CLUSTER_QUEUES, FLAVORS, WORKLOAD_PRIORITIES, POD_PRIORITIES)
# The kinds of the engines' objects (core/render/scheduling), keyed by API version and kind, because
# several engines have a kind named PodGroup. The operator does not watch these objects
# (controller/observe/engine_reader.py). These kinds need additional permissions, which the chart
# grants if the cluster serves the kinds.
SCHEDULING: Final = {
    row.full_kind: ObjectKind(row.kind, row.plural, "get create patch delete", version=row.api)
    for row in ENGINES.values()
    if row.kind
}


def kind_of(manifest: Mapping[str, Any]) -> ObjectKind:
    """Return the kind of an object that the operator creates for a job."""
    full = f"{manifest['apiVersion']}/{manifest['kind']}"
    for kind in (BUDGETS, WORKLOADS):
        if manifest["kind"] == kind.name:
            return kind
    return SCHEDULING.get(full) or CHILDREN[manifest["kind"]]
