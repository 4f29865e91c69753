"""The PodDisruptionBudgets of a job: one for each task that has a disruptionBudget, or one for a
job without tasks.

`minAvailable` is a number, so that the disruption controller counts only the Ready pods that the
selector matches. For a percentage or `maxUnavailable`, it would use the job's scale instead. The
scale is the size of the whole job. It includes ranks that have succeeded, although these are never
Ready again (docs/decisions/056).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dijob import names
from dijob.api.model import DIJob
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest

KIND: Final = "PodDisruptionBudget"
API: Final = "policy/v1"


@dataclass(frozen=True)
class RankBudget:
    """The budget of one task, or of a job without tasks (`task`: ""). `name` is the name of its
    object, and `most` is the number of ranks that may be unavailable.
    """

    name: str
    task: str
    most: int


def budget_name(job: DIJob, task: str) -> str:
    """Return the name of the object for a task, or for a job without tasks."""
    name = job.metadata.name
    return f"{name}-{task}" if task else name


def wanted_budgets(job: DIJob) -> tuple[RankBudget, ...]:
    """Return the budgets that the job's spec asks for."""
    return tuple(_budgets_in(job))


def _budgets_in(job: DIJob) -> Iterator[RankBudget]:
    if not job.spec.tasks:
        if given := job.spec.disruption_budget:
            yield RankBudget(budget_name(job, ""), "", given.max_unavailable)
        return
    for pod_set, task in zip(job.pod_sets, job.spec.tasks, strict=True):
        if given := task.disruption_budget:
            name = budget_name(job, pod_set.name)
            yield RankBudget(name, pod_set.name, given.max_unavailable)


def budget_spec(job: DIJob, task: str, least: int) -> Manifest:
    """Return the spec of a budget that keeps at least this many ranks of a task Ready."""
    of_task = {names.LEGACY_TASK_NAME: task} if task else {}
    return {
        "minAvailable": least,
        "selector": {"matchLabels": {names.LABEL_JOB: job.metadata.name, **of_task}},
        # A rank that is running but not Ready may always be evicted. By default, Kubernetes allows
        # this only while enough other pods are Ready. A rank that hangs would then block the drain
        # of its node, although its eviction loses nothing. The same applies to the ranks of a job
        # that is waiting for a lost rank.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }


def budget_manifest(job: DIJob, task: str, least: int) -> Manifest:
    """Return the PodDisruptionBudget of a task."""
    return {
        "apiVersion": API,
        "kind": KIND,
        "metadata": metadata.of_budget(job, budget_name(job, task), _template_labels(job, task)),
        "spec": budget_spec(job, task, least),
    }


def _template_labels(job: DIJob, task: str) -> dict[str, str] | None:
    return next(one for one in job.pod_sets if one.name == task).template.metadata.labels
