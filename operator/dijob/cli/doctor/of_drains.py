"""Checks the PodDisruptionBudgets that apply to a job's pods. No I/O.

A node drain waits while a budget allows no eviction, and Kubernetes does not say why.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.of_network import matches_selector
from dijob.cli.doctor.verdict import Finding, ok, problem, unknown
from dijob.client import RankPod
from dijob.core.members import format_count, format_ranks, parse_ranks

Budget = Mapping[str, Any]

_REMEDY: Final = (
    "use disruptionBudget in the spec of the job or of its tasks, or set the budget's minAvailable"
    " to a number (docs/tasks.md#drain-a-node)"
)


def check_drains(evidence: Evidence) -> Iterator[Finding]:
    """Check that no budget blocks drains indefinitely, and that none allows more evictions than
    intended.
    """
    if evidence.budgets is None:
        yield unknown(
            evidence.refused.get("budgets", ""),
            "ask your administrator for permission to list poddisruptionbudgets",
        )
        return
    selected = {name_of(one): _selected_pods(one, evidence) for one in evidence.budgets}
    found = [
        *_pods_in_two(selected, evidence),
        *(
            finding
            for one in evidence.budgets
            if (pods := selected[name_of(one)]) and (finding := _miscounted(one, pods, evidence))
        ),
    ]
    yield from found or [ok(_describe(evidence, selected))]


def name_of(budget: Budget) -> str:
    """Return the name of a budget."""
    return str(budget["metadata"]["name"])


def _selected_pods(budget: Budget, evidence: Evidence) -> list[RankPod]:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return []
    return [
        pod for pod in evidence.pods if matches_selector(selector, pod.meta.get("labels") or {})
    ]


def _pods_in_two(selected: Mapping[str, list[RankPod]], evidence: Evidence) -> Iterator[Finding]:
    """Yield a problem if pods belong to several budgets. The eviction API then rejects every
    eviction of these pods.
    """
    by_budgets = dict[tuple[str, ...], list[int]]()
    for pod in evidence.pods:
        names = tuple(name for name, pods in selected.items() if pod in pods)
        if len(names) > 1:
            by_budgets.setdefault(names, []).append(pod.rank)
    for names, ranks in by_budgets.items():
        yield problem(
            f"{format_ranks(ranks)} cannot be evicted: several PodDisruptionBudgets"
            f" ({', '.join(names)}) select the same pod, and the eviction API does not support"
            " this",
            "delete one of the budgets, or remove disruptionBudget from the job",
        )


def _miscounted(budget: Budget, pods: list[RankPod], evidence: Evidence) -> Finding | None:
    """Return a problem if Kubernetes computes a budget from the wrong number of pods.

    Kubernetes uses `spec.replicas`. In a job with tasks, `spec.replicas` is the size of the last
    task only, but the budget may select other pods.
    """
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    by_scale = spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)
    if not by_scale or evidence.job.finished:
        return None
    scaled, size = _scaled_ranks(evidence)
    outside = [pod.rank for pod in pods if pod.rank < scaled.start]
    if outside:
        return problem(
            f"PodDisruptionBudget {name_of(budget)} allows the wrong number of evictions:"
            f" Kubernetes computes the number from {size}, but the budget also selects"
            f" {format_ranks(outside)}",
            _REMEDY,
        )
    if status.get("disruptionsAllowed", 0) > 0:
        return None
    done = sum(rank in scaled for rank in parse_ranks(evidence.job.status.succeeded_ranks))
    causes = [
        *([f"{done} of them have succeeded"] if done else []),
        *([f"the budget selects only {len(pods)} of them"] if len(pods) < len(scaled) else []),
    ]
    if not causes:
        return None
    return problem(
        f"PodDisruptionBudget {name_of(budget)} currently allows no eviction: Kubernetes computes"
        f" the number of allowed evictions from {size}, but {' and '.join(causes)}",
        _REMEDY,
    )


def _scaled_ranks(evidence: Evidence) -> tuple[range, str]:
    """Return the ranks that `spec.replicas` counts, and a description of their number."""
    model, desired = evidence.model, evidence.job.status.desired
    if model is None or not model.spec.tasks:
        return range(desired), f"the size of the job ({format_count(desired, 'rank')})"
    last = model.pod_sets[-1]
    count = format_count(last.replicas, "rank")
    return range(last.first, last.first + last.replicas), f"the size of task {last.name} ({count})"


def _describe(evidence: Evidence, selected: Mapping[str, list[RankPod]]) -> str:
    ours = [one for one in evidence.budgets or () if selected[name_of(one)]]
    if not ours:
        return "no PodDisruptionBudget selects the job's pods"
    allowed = (
        f"PodDisruptionBudget {name_of(one)} allows"
        f" {format_count((one.get('status') or {}).get('disruptionsAllowed', 0), 'eviction')} now"
        for one in ours
    )
    return "; ".join(allowed)
