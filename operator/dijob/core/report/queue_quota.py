"""Describes the queue of a waiting job: how much quota is free, and how many Workloads are waiting.

Both are read from the ClusterQueue. While the ClusterQueue is not known, the number of Workloads
comes from the LocalQueue.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.core.members import format_count
from dijob.core.observed.queue_views import QueueView, Quota
from dijob.core.render.fields import as_mapping, objects_in
from dijob.core.render.quantities import (
    Amounts,
    add_amounts,
    format_amount,
    parse_quantity,
    pod_requests,
)

Body = Mapping[str, Any]
# A message names at most this many resources.
NAMED_RESOURCES: Final = 3


def parse_quota(body: Body) -> Quota:
    """Return the quota of a ClusterQueue."""
    spec, status = as_mapping(body.get("spec")), as_mapping(body.get("status"))
    flavors = (
        flavor
        for group in objects_in(spec.get("resourceGroups"))
        for flavor in objects_in(group.get("flavors"))
    )
    total = _amounts(flavors, "nominalQuota")
    used = _amounts(objects_in(status.get("flavorsReservation")), "total")
    # A queue that borrows from its cohort has reserved more than its own quota.
    free = {key: max(Decimal(0), value - used.get(key, 0)) for key, value in total.items()}
    pending = int(status.get("pendingWorkloads") or 0)
    return Quota(pending, total, free, str(spec.get("cohortName") or ""))


def describe_position(job: DIJob, seen: QueueView) -> str:
    """Return how much quota is free, and how many Workloads may be ahead of the job; "" if neither
    is known. Kueue's statuses do not contain the order of the Workloads.
    """
    queue = seen.quota or seen.local
    others = queue.pending - 1 if queue else 0
    behind = f"behind at most {format_count(others, 'workload')}" if others > 0 else ""
    return ", ".join(filter(None, (_describe_free(job, seen), behind)))


def _describe_free(job: DIJob, seen: QueueView) -> str:
    """Return the free quota of each resource that is insufficient for the job, GPUs first."""
    quota = seen.quota
    if quota is None:
        return ""
    needed = _needed(job, seen.held_back)
    short = [key for key, value in needed.items() if value > quota.free.get(key, value)]
    short.sort(key=lambda key: (not key.endswith("/gpu"), key))
    each = (
        f"{format_amount(key, quota.free[key])} of {format_amount(key, quota.total[key])} {key}"
        for key in short[:NAMED_RESOURCES]
    )
    if not (text := ", ".join(each)):
        return ""
    lent = any(quota.free[key] for key in short[:NAMED_RESOURCES]) and quota.cohort
    return f"{text} free" + (
        f" (other queues of cohort {lent} may have borrowed it)" if lent else ""
    )


def _needed(job: DIJob, more: int) -> Amounts:
    """Return the requests of all pods of a waiting job (`more` is 0). For a running job, return
    only the requests of the `more` ranks that it does not have yet.
    """
    counts = {one.path: 0 if more else one.replicas for one in job.pod_sets}
    counts[job.pod_sets[-1].path] = more or job.pod_sets[-1].replicas
    return add_amounts(
        {key: value * counts[one.path] for key, value in pod_requests(one.pod).items()}
        for one in job.pod_sets
    )


def _amounts(flavors: Iterable[Body], key: str) -> Amounts:
    """Return the sum of a field over all flavors, by the name of the resource."""
    return add_amounts(
        {str(one.get("name")): parse_quantity(one.get(key) or 0)}
        for flavor in flavors
        for one in objects_in(flavor.get("resources"))
    )
