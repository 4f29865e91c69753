"""Infers the state of a pod's scheduler and node from the pod itself, if they report nothing."""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dijob import names
from dijob.core.observed.views import GATED

Body = Mapping[str, Any]

# The part that is common to all messages of `group_message` about a gang.
IN_GROUP = "has no room for at least"
# Parts of the messages about pods that only wait for other pods of their gang. Kubernetes (see
# above), Volcano and Coscheduling have different messages for this.
_OF_OTHERS = (
    IN_GROUP,
    "pod group is not ready",
    "once minAvailable is satisfied",
    "optimistic rejection in PostFilter",
)
_MIN_COUNT = re.compile(r"minCount \((\d+)\) cannot be satisfied")


def pod_condition(status: Body, type_: str) -> Body:
    """Return the pod's condition of this type; {} if it has none."""
    return next((c for c in status.get("conditions") or () if c.get("type") == type_), {})


def unacknowledged_by(spec: Body, status: Body) -> str:
    """Return the "node x" or "scheduler x" that has not reported on the pod yet; "" if it has."""
    if node := spec.get("nodeName"):
        known = status.get("startTime") or status.get("containerStatuses")
        return "" if known else sys.intern(f"node {node}")
    scheduler = spec.get("schedulerName") or "default-scheduler"
    return "" if pod_condition(status, "PodScheduled") else sys.intern(f"scheduler {scheduler}")


def describe_gates(spec: Body) -> str:
    """Return a message that names the scheduling gates of the pod; "" if it has none. The API
    server's own message does not name them.
    """
    held = [str(gate.get("name")) for gate in spec.get("schedulingGates") or ()]
    if not held:
        return ""
    verb = "has" if len(held) == 1 else "have"
    kind = "scheduling gate" if len(held) == 1 else "scheduling gates"
    return f"{GATED}: its {kind} {', '.join(held)} {verb} not been removed yet"


def required_objects(spec: Body, status: Body) -> tuple[str, ...]:
    """Return the objects that must exist before a scheduler considers the pod. If one is missing,
    the scheduler reports nothing.
    """
    return (*_resource_claims(spec, status), *_pod_groups(spec))


def _resource_claims(spec: Body, status: Body) -> Iterator[str]:
    made = {one.get("name") for one in status.get("resourceClaimStatuses") or ()}
    for claim in spec.get("resourceClaims") or ():
        if template := claim.get("resourceClaimTemplateName"):
            if claim.get("name") not in made:
                yield _describe_required(
                    "a ResourceClaim created from the ResourceClaimTemplate", template
                )
        elif name := claim.get("resourceClaimName"):
            yield _describe_required("the ResourceClaim", name)


def _pod_groups(spec: Body) -> Iterator[str]:
    """Yield the objects that Kubernetes' gang scheduling requires: schedulingGroup since 1.36,
    workloadRef before.
    """
    if name := (spec.get("schedulingGroup") or {}).get("podGroupName"):
        yield f"{_describe_required('the PodGroup', name)} with at least minCount pods"
    if name := (spec.get("workloadRef") or {}).get("name"):
        yield f"{_describe_required('the Workload', name)} with at least minCount pods"


def _describe_required(what: str, name: str) -> str:
    kind = what.rpartition(" ")[2].lower()
    return f"{what} {name} (kubectl get {kind} {name})"


def waits_for_others(complaint: str) -> bool:
    """Whether the scheduler says only that the pod waits for other pods of its gang."""
    return any(part in complaint for part in _OF_OTHERS)


def scheduling_group(spec: Body) -> str:
    """Return the name of the PodGroup of a pod with this spec; "" if it has none."""
    return str((spec.get("schedulingGroup") or {}).get("podGroupName") or "")


def group_message(spec: Body, message: str) -> str:
    """Return the scheduler's message about a pod. For the pods of a gang, the scheduler reports how
    far it got in its last attempt. This report changes constantly. For such a pod, return instead
    how many pods the gang needs.
    """
    found = _MIN_COUNT.search(message)
    name = scheduling_group(spec)
    if found and name:
        return f"PodGroup {name} {IN_GROUP} {found[1]} pods"
    # The scheduler appends an error that it has already reported: "claim x not found. not found".
    text, _, last = message.rpartition(". ")
    return text if last and text.endswith(f" {last}") else message


def silent_since(status: Body) -> str:
    """Return the time at which the pod's node became unreachable; "" if it is reachable.

    On the pods of an unreachable node, the node controller sets only the condition Ready to False,
    without a reason. A kubelet that sets Ready to False always gives a reason.
    """
    ready = pod_condition(status, "Ready")
    ours = ready.get("status") == "False" and not ready.get("reason")
    alive = pod_condition(status, "ContainersReady").get("status") == "True"
    return str(ready.get("lastTransitionTime") or "") if ours and alive else ""


def eviction_seconds(spec: Body) -> int | None:
    """Return the number of seconds after which Kubernetes evicts the pod from a lost node; None if
    the pod is never evicted.
    """
    times = [
        toleration.get("tolerationSeconds")
        for toleration in spec.get("tolerations") or ()
        if (toleration.get("key") or "") in ("", names.TAINT_UNREACHABLE)
        and (toleration.get("effect") or "") in ("", "NoExecute")
    ]
    bounded = [max(0, int(seconds)) for seconds in times if seconds is not None]
    return min(bounded, default=None) if times else 0
