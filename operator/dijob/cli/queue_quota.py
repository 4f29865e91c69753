"""Compares the minimum needs of a job with the quota of its ClusterQueue (Kueue). No I/O.

If a job needs more than its queue can ever provide, the job waits forever. The comparison considers
only the size of the quota, not what other jobs use. It reports a job only if Kueue can never admit
the job. So in a cohort, a resource without a borrowing limit is treated as unlimited.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dijob.core.members import format_count
from dijob.core.render.fields import as_mapping, objects_in
from dijob.core.render.quantities import (
    Amounts,
    add_amounts,
    format_amount,
    parse_quantity,
    pod_requests,
)

Body = Mapping[str, Any]
# The quota of a resource; None means unlimited.
Limits = dict[str, Decimal | None]


@dataclass(frozen=True)
class QuotaFinding:
    """The result of the comparison.

    `misfit` is the reason why the job can never be admitted, or "". `doubt` is the reason why it
    is uncertain whether the job can be admitted, or "".
    """

    misfit: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class _Need:
    """The smallest number of pods that Kueue may admit from a pod set, and the pods' requests."""

    name: str
    count: int
    amounts: Amounts


def compare_with_quota(queue: Body, workload: Body) -> QuotaFinding:
    """Compare a job's Workload with its ClusterQueue."""
    name, spec = queue["metadata"]["name"], as_mapping(queue.get("spec"))
    needs = [_need(one) for one in objects_in(workload["spec"]["podSets"])]
    groups = objects_in(spec.get("resourceGroups"))
    in_cohort = bool(spec.get("cohortName"))
    covered = {str(one) for group in groups for one in group.get("coveredResources") or ()}
    asked = add_amounts(need.amounts for need in needs)
    for group in groups:
        flavors = {
            str(flavor.get("name")): _limits(flavor, in_cohort)
            for flavor in objects_in(group.get("flavors"))
        }
        if short := _find_shortage(group, flavors, needs):
            return QuotaFinding(f"the job can never fit into the ClusterQueue {name}: {short}")
    # Kueue counts pods only if the ClusterQueue covers them. Kueue's configuration can exclude or
    # transform resources, so a resource that is not covered is not necessarily a problem.
    missing = sorted(key for key in asked.keys() - covered - {"pods"} if asked[key])
    if missing:
        return QuotaFinding(
            doubt=f"the ClusterQueue {name} does not cover {', '.join(missing)}, which the job"
            " requests: the job is never admitted unless Kueue's configuration excludes or"
            " transforms every resource that is not covered"
        )
    return QuotaFinding()


def _need(pod_set: Body) -> _Need:
    count = int(pod_set.get("minCount") or pod_set["count"])
    each = {**pod_requests(pod_set["template"]["spec"]), "pods": Decimal(1)}
    return _Need(pod_set["name"], count, {key: value * count for key, value in each.items()})


def _limits(flavor: Body, in_cohort: bool) -> Limits:
    """Return the largest amount of each resource that the queue can use from a flavor."""
    found = Limits()
    for one in objects_in(flavor.get("resources")):
        nominal, borrowed = parse_quantity(one.get("nominalQuota") or 0), one.get("borrowingLimit")
        limit = nominal + parse_quantity(borrowed or 0)
        unlimited = in_cohort and borrowed is None
        found[str(one.get("name"))] = None if unlimited else (limit if in_cohort else nominal)
    return found


def _find_shortage(group: Body, flavors: Mapping[str, Limits], needs: Sequence[_Need]) -> str:
    """Return the shortage in a resource group as text; "" if its quota may be large enough."""
    covered = [str(one) for one in group.get("coveredResources") or ()]
    for need in needs:
        wanted = {key: need.amounts[key] for key in covered if need.amounts.get(key)}
        # For each pod set, Kueue takes all resources of a group from the same flavor.
        lacks = {name: _exceeded(wanted, limits) for name, limits in flavors.items()}
        if wanted and all(lacks.values()):
            each = "; ".join(f"flavor {name} has at most {short}" for name, short in lacks.items())
            pods = f"{format_count(need.count, 'pod')} of pod set {need.name}"
            return f"{pods} need {_format(wanted)}{f', but {each}' if each else ''}"
    total = add_amounts(need.amounts for need in needs)
    wanted = {key: total[key] for key in covered if total.get(key)}
    limits = {
        key: _sum(limits.get(key, Decimal(0)) for limits in flavors.values()) for key in wanted
    }
    if short := _exceeded(wanted, limits):
        return f"its pods need {_format(wanted)}, but all flavors together have at most {short}"
    return ""


def _exceeded(wanted: Amounts, limits: Limits) -> str:
    """Return the limits that are too low, as text."""
    found = Amounts()
    for key, amount in wanted.items():
        limit = limits.get(key, Decimal(0))
        if limit is not None and amount > limit:
            found[key] = limit
    return _format(found)


def _sum(limits: Iterable[Decimal | None]) -> Decimal | None:
    found = list(limits)
    known = [one for one in found if one is not None]
    return sum(known, Decimal(0)) if len(known) == len(found) else None


def _format(amounts: Amounts) -> str:
    return ", ".join(f"{key} {format_amount(key, value)}" for key, value in sorted(amounts.items()))
