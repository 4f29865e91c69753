"""Creates the views of Kueue's objects (kueue.x-k8s.io/v1beta2) from raw objects."""

from collections.abc import Mapping
from typing import Any

from dijob import names
from dijob.core.observed.parse import owner_of
from dijob.core.observed.queue_views import Assignment, Flavor, LocalQueue, Workload

Body = Mapping[str, Any]


def parse_workload(body: Body) -> Workload:
    """Return the view of a Workload."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    counts = {
        str(one.get("name") or "main"): int(one.get("count", 1))
        for one in spec.get("podSets") or ()
    }
    given = (status.get("admission") or {}).get("podSetAssignments") or ()
    notes = meta.get("annotations") or {}
    return Workload(
        name=meta["name"],
        uid=meta["uid"],
        owner=owner_of(meta),
        version=meta.get("resourceVersion") or "",
        digest=notes.get(names.ANNOTATION_WORKLOAD, ""),
        queue=spec.get("queueName") or "",
        active=spec.get("active") is not False,
        deleting=bool(meta.get("deletionTimestamp")),
        generation=meta.get("generation") or 0,
        counts=counts,
        assigned={one["name"]: _assignment(one, counts) for one in given},
        reclaimable={one["name"]: one["count"] for one in status.get("reclaimablePods") or ()},
        updates=tuple(
            update
            for check in status.get("admissionChecks") or ()
            for update in check.get("podSetUpdates") or ()
        ),
        conditions=tuple(status.get("conditions") or ()),
        past_seconds=status.get("accumulatedPastExecutionTimeSeconds") or 0,
        replaces=notes.get(names.KUEUE_REPLACES, "").rpartition("/")[2],
    )


def parse_flavor(body: Body) -> Flavor:
    """Return the view of a ResourceFlavor."""
    spec = body.get("spec") or {}
    return Flavor(spec.get("nodeLabels") or {}, tuple(spec.get("tolerations") or ()))


def parse_queue(body: Body) -> LocalQueue:
    """Return the view of a LocalQueue."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    found = (one for one in status.get("conditions") or () if one.get("type") == "Active")
    active: Body = next(found, {})
    why = str(active.get("message") or "") if active.get("status") == "False" else ""
    pending = int(status.get("pendingWorkloads") or 0)
    return LocalQueue(pending, why, str(spec.get("clusterQueue") or ""))


def _assignment(given: Body, counts: Mapping[str, int]) -> Assignment:
    return Assignment(
        count=int(given.get("count", counts.get(given["name"], 0))),
        flavors=tuple(dict.fromkeys((given.get("flavors") or {}).values())),
        by_topology=bool(given.get("topologyAssignment")),
    )
