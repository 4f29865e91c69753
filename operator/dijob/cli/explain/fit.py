"""Estimates whether pods fit on the nodes and within the quotas. No I/O.

This module implements the scheduler's simple rules: requests, node selectors, taints and host
ports. The real scheduler also considers affinity, topology spread constraints and preemption. If
the job uses affinity or topology spread constraints, the finding says that they are not checked.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from dijob import names
from dijob.cli.explain import quota_scopes
from dijob.core.members import format_count
from dijob.core.render import quantities
from dijob.core.render.fields import as_mapping, objects_in
from dijob.core.render.quantities import Amounts

Body = Mapping[str, Any]

YES, NO, UNKNOWN = "yes", "no", "unknown"
# The third effect, PreferNoSchedule, does not keep a pod off a node.
_BLOCKING_EFFECTS: Final = ("NoSchedule", "NoExecute")
# How a quota spells each kind in its `count/` keys.
_COUNTED: Final = {
    names.KIND: f"{names.PLURAL}.{names.GROUP}",
    "Service": "services",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
}


@dataclass(frozen=True)
class FitFinding:
    """A line of the output: a verdict (yes, no or unknown) and a sentence."""

    verdict: str
    text: str


@dataclass
class NodeRoom:
    """The free resources of a node."""

    name: str
    labels: Body
    taints: Sequence[Body]
    free: Amounts
    ports: set[int] = field(default_factory=set)
    images: frozenset[str] = frozenset()

    def excludes(self, spec: Body) -> str:
        """Return the label or taint that keeps a pod off the node; "" if there is none."""
        wanted = as_mapping(spec.get("nodeSelector"))
        if any(self.labels.get(key) != value for key, value in wanted.items()):
            return "nodeSelector"
        tolerations = objects_in(spec.get("tolerations"))
        for taint in self.taints:
            if taint.get("effect") in _BLOCKING_EFFECTS and not _is_tolerated(taint, tolerations):
                return f"taint {taint.get('key')}"
        return ""

    def takes(self, spec: Body) -> str:
        """Return why a pod does not fit; "" if it does."""
        if reason := self.excludes(spec):
            return reason
        if host_ports(spec) & self.ports:
            return "a host port"
        # The number of pods that a node can run is also a resource (110 by default).
        requests = {**quantities.pod_requests(spec), "pods": Decimal(1)}
        short = [
            name for name, value in requests.items() if value > self.free.get(name, Decimal(0))
        ]
        return ", ".join(short)

    def take(self, spec: Body) -> None:
        """Subtract the resources of a pod that is placed on the node."""
        requests = {**quantities.pod_requests(spec), "pods": Decimal(1)}
        for name, value in requests.items():
            self.free[name] = self.free.get(name, Decimal(0)) - value
        self.ports |= host_ports(spec)


def free_resources(nodes: Iterable[Body], pods: Iterable[Body]) -> list[NodeRoom]:
    """Return the free resources of all ready and schedulable nodes."""
    found = {}
    for node in nodes:
        meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
        if spec.get("unschedulable") or not _is_ready(status):
            continue
        given = as_mapping(status.get("allocatable"))
        free = {str(name): quantities.parse_quantity(value) for name, value in given.items()}
        labels = as_mapping(meta.get("labels"))
        taints, images = objects_in(spec.get("taints")), _image_names(status)
        found[meta["name"]] = NodeRoom(meta["name"], labels, taints, free, images=images)
    for pod in pods:
        spec = pod.get("spec") or {}
        # A terminated pod does not hold any resources.
        over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if not over and spec.get("nodeName") in found:
            found[spec["nodeName"]].take(spec)
    return list(found.values())


def into_nodes(
    specs: Sequence[Body], minimum: int, places: Sequence[NodeRoom], together: int = 0
) -> FitFinding:
    """Return whether all pods, or at least the minimum to start the job, currently fit on the
    nodes. `together` is the number of pods that must fit at the same time before any of them gets a
    node.

    Each pod is placed on the first node that fits. An optimal placement may fit more pods.
    """
    placed, why = 0, dict[str, int]()
    for spec in specs:
        reasons = []
        for room in places:
            if not (reason := room.takes(spec)):
                room.take(spec)
                placed += 1
                break
            reasons.append(reason)
        else:
            for reason in reasons:
                why[reason] = why.get(reason, 0) + 1
    nodes, pods = format_count(len(places), "node"), format_count(len(specs), "pod")
    if placed == len(specs):
        return FitFinding(
            YES, f"nodes: all {pods} fit now ({nodes} ready){_unchecked_rules(specs)}"
        )
    # The reason that applies to most nodes is the most useful one.
    reason = max(why, key=lambda one: why[one]) if why else "no node is ready"
    # The specs can include the pod of a Redis server.
    needed = min(max(minimum, together), len(specs))
    verdict = YES if placed >= needed else NO
    text = f"nodes: {placed} of {pods} fit now ({nodes} ready); limited by: {reason}"
    if verdict is YES:
        text += f"; the job starts with {needed}"
    elif placed < together:
        text += f"; no pod gets a node until {together} fit at the same time"
    return FitFinding(verdict, f"{text}{_unchecked_rules(specs)}")


def into_quotas(
    specs: Sequence[Body], quotas: Iterable[Body], created: Iterable[str] = ()
) -> list[FitFinding]:
    """Return a finding for each quota of the namespace.

    `created` contains the kind of each object that is created with the job, except pods. If a kind
    has several objects, it occurs once for each object.
    """
    counts = Counter(_COUNTED[kind] for kind in created if kind in _COUNTED)
    others = {name: Decimal(count) for name, count in counts.items()}
    return [_check_quota(quota, specs, others) for quota in quotas] or [
        FitFinding(YES, "quotas: the namespace has none")
    ]


def _check_quota(quota: Body, specs: Sequence[Body], others: Amounts) -> FitFinding:
    name, spec = quota["metadata"]["name"], quota.get("spec") or {}
    scopes = quota_scopes.scopes_of(spec)
    inside = [quota_scopes.contains(scopes, pod) for pod in specs]
    if None in inside:
        return FitFinding(UNKNOWN, f"quota {name}: not checked, because of its scopes")
    if scopes and not any(inside):
        return FitFinding(YES, f"quota {name} does not apply, because of its scopes")
    # A quota limits the total requests of all pods in its scopes, wherever they run.
    counted = [pod for pod, within in zip(specs, inside, strict=True) if within]
    asked = others | _total_amounts(counted)
    status = quota.get("status") or {}
    hard, used = as_mapping(status.get("hard") or spec.get("hard")), as_mapping(status.get("used"))
    short = []
    for key, limit in hard.items():
        left = quantities.parse_quantity(limit) - quantities.parse_quantity(used.get(key, 0))
        wanted = asked.get(_normalise_key(str(key)), Decimal(0))
        if wanted > left:
            plain = _normalise_key(str(key)).removeprefix("limits.")
            amounts = (
                quantities.format_amount(plain, wanted),
                quantities.format_amount(plain, max(left, Decimal(0))),
            )
            short.append(f"{key}: {amounts[0]} needed, {amounts[1]} left")
    if short:
        return FitFinding(NO, f"quota {name} is too small: {'; '.join(short)}")
    return FitFinding(YES, f"quota {name} is large enough")


def _total_amounts(specs: Sequence[Body]) -> Amounts:
    found = quantities.add_amounts(map(quantities.pod_requests, specs))
    limits = quantities.add_amounts(map(quantities.pod_limits, specs))
    return {
        **found,
        **{f"limits.{name}": value for name, value in limits.items()},
        **quantities.add_amounts(map(_claimed_storage, specs)),
        "pods": Decimal(len(specs)),
    }


def _claimed_storage(spec: Body) -> Amounts:
    """Return the claims that Kubernetes creates for the ephemeral volumes of a pod."""
    found: list[Amounts] = []
    for volume in objects_in(spec.get("volumes")):
        template = as_mapping(as_mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
        if template:
            resources = as_mapping(as_mapping(template.get("spec")).get("resources"))
            asked = as_mapping(resources.get("requests")).get("storage", 0)
            size = quantities.parse_quantity(asked)
            found.append({"persistentvolumeclaims": Decimal(1), "storage": size})
    return quantities.add_amounts(found)


def _normalise_key(key: str) -> str:
    """Normalize a quota's key: requests.cpu means cpu, and count/pods means pods."""
    return key.removeprefix("requests.").removeprefix("count/")


def _unchecked_rules(specs: Sequence[Body]) -> str:
    looked = any(spec.get("affinity") or spec.get("topologySpreadConstraints") for spec in specs)
    return "; affinity and topology spread constraints are not checked" if looked else ""


def _image_names(status: Body) -> frozenset[str]:
    """Return all names of the images that a node reports."""
    listed = (one.get("names") for one in objects_in(status.get("images")))
    return frozenset(str(name) for names_ in listed for name in names_ or ())


def _is_ready(status: Body) -> bool:
    return any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in objects_in(status.get("conditions"))
    )


def _is_tolerated(taint: Body, tolerations: Iterable[Body]) -> bool:
    for one in tolerations:
        # A toleration without a key matches all keys, and one without an effect matches all
        # effects.
        key = not one.get("key") or one.get("key") == taint.get("key")
        effect = not one.get("effect") or one.get("effect") == taint.get("effect")
        exists = one.get("operator") == "Exists"
        value = exists or (one.get("value") or "") == (taint.get("value") or "")
        if key and effect and value:
            return True
    return False


def host_ports(spec: Body) -> set[int]:
    """Return the host ports that a pod uses."""
    ports = [
        port
        for container in objects_in(spec.get("containers"))
        for port in objects_in(container.get("ports"))
    ]
    # With hostNetwork, the API server copies each containerPort to hostPort.
    on_host = bool(spec.get("hostNetwork"))
    found = (
        port.get("hostPort") or (port.get("containerPort") if on_host else 0) for port in ports
    )
    return {int(port) for port in found if port}
