"""The kinds of objects that the operator works with: their paths, and its rights on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from dijob import names
from dijob.core.observed.parse import child, pod
from dijob.core.observed.policies import policy
from dijob.core.observed.views import Child, Pod

# Which objects of a watched kind are shown: those that the operator has created.
SELECTOR: Final = f"{names.MANAGED_BY}={names.MANAGER}"


@dataclass(frozen=True)
class Kind:
    """One kind of object. `plural` is its resource in paths and in RBAC.

    `verbs` are the rights that the operator needs: the chart grants these and no others, as
    tests/unit/test_chart.py checks. `view` reads an object; None: the kind is not watched.
    """

    name: str
    plural: str
    verbs: str
    version: str = "v1"
    view: Callable[[Mapping[str, Any]], Pod | Child] | None = None

    @property
    def group(self) -> str:
        """The API group, as RBAC names it; "" for the core's."""
        return self.version.partition("/")[0] if "/" in self.version else ""

    def path(self, namespace: str = "", name: str = "") -> str:
        """Path of an object, of the collection in a namespace, or of that in all namespaces."""
        root = f"/{'apis' if self.group else 'api'}/{self.version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")


JOBS: Final = Kind(names.KIND, names.PLURAL, "get list watch patch delete", names.API_VERSION)
JOB_STATUS: Final = Kind(names.KIND, f"{names.PLURAL}/status", "patch", names.API_VERSION)
# No such resource is served. An API server that checks owner references (the admission plugin
# OwnerReferencesPermissionEnforcement) asks for this right where blockOwnerDeletion is set.
JOB_FINALIZERS: Final = Kind(names.KIND, f"{names.PLURAL}/finalizers", "update", names.API_VERSION)
PODS: Final = Kind("Pod", "pods", "get list watch create delete patch", view=pod)
SERVICES: Final = Kind("Service", "services", "get list watch create", view=child)
# Watched only where each job has one of its own.
POLICIES: Final = Kind(
    "NetworkPolicy", "networkpolicies", "get create", "networking.k8s.io/v1", view=policy
)
EVENTS: Final = Kind("Event", "events", "get list create patch")
# In the operator's own namespace only (lease.py).
LEASES: Final = Kind("Lease", "leases", "get create patch", "coordination.k8s.io/v1")

KINDS: Final = (JOBS, JOB_STATUS, JOB_FINALIZERS, PODS, SERVICES, POLICIES, EVENTS)
# The rights that it needs besides, where each job has a NetworkPolicy.
ISOLATING: Final = (replace(POLICIES, verbs="list watch patch"),)
# What the operator creates for a job, by the `kind` of its manifest.
CHILDREN: Final = {kind.name: kind for kind in (PODS, SERVICES, POLICIES)}
