"""The controller that manages a job (spec.managedBy), as for Kubernetes Jobs (KEP-4368).

MultiKueue uses the field: it copies the job to another cluster, and mirrors the copy's status in
the original job. If another controller manages a job, the operator leaves the job alone, whether
its spec is valid or not. So the field is read from the raw object.
"""

from collections.abc import Mapping
from typing import Any, Final

from dijob import names

LEFT_ALONE_MESSAGE: Final = (
    "spec.managedBy is {}: this operator does not create, change or delete any of the job's"
    " objects, and does not write its status"
)


def other_manager(body: Mapping[str, Any]) -> str:
    """Return the controller that manages a job instead of this operator; "" if there is none."""
    spec = body.get("spec")
    return without_own(spec.get("managedBy")) if isinstance(spec, Mapping) else ""


def without_own(named: object) -> str:
    """Return the value of spec.managedBy; "" if it is absent or names this operator."""
    return named if isinstance(named, str) and named != names.OWN_MANAGER else ""
