"""Checks the values that a template gives to the operator's variables.

A template's value takes precedence in the pod, but the operator follows the spec. If the template's
value and the spec differ, the ranks disagree about which of them connect to each other, how many
processes there are, or which queue they use. Such a job is rejected before its first pod is
created. A job that an older operator accepted keeps running and gets a warning instead
(later_rules.py).
"""

from collections.abc import Iterator
from typing import Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet, entries_at
from dijob.api.problems import Problem
from dijob.names import Queue

# The variables on which all ranks must agree, with the field that sets each of them.
_FIELDS: Final = {
    "DI_TOPOLOGY": "spec.topology",
    "DI_PARALLEL_WORKERS": "spec.parallelWorkers",
    "DI_MQ_TYPE": "spec.messageQueue.type",
    "DI_REDIS_HOST": "spec.messageQueue.host",
    "DI_REDIS_PORT": "spec.messageQueue.port",
}
# These variables matter only to the rank itself, so a different value causes at most a warning.
_NAMES: Final = ("DI_JOB_ID", "DI_JOB_NAME", "DI_JOB_NAMESPACE")


def variable_problems(job: DIJob) -> tuple[Problem, ...]:
    """Return a problem for each variable in the templates that contradicts the spec."""
    expected = _known_values(job)
    return tuple(
        Problem(path, _describe_conflict(name, value, expected[name]))
        for pod_set in job.pod_sets
        for path, name, value in _given_variables(pod_set)
        if name in expected and value not in (None, expected[name])
    )


def variable_warnings(job: DIJob) -> Iterator[Problem]:
    """Yield a warning for each template variable that overrides one of the operator's variables, or
    whose value cannot be read.
    """
    world, meta = _known_values(job), job.metadata
    # A template may repeat the operator's own values.
    same = {("DI_JOB_NAME", meta.name), ("DI_JOB_NAMESPACE", meta.namespace)}
    tasks = [pod_set.name for pod_set in job.pod_sets if pod_set.name]
    hidden = (*_NAMES, *map(names.nodes_variable, tasks), *(["DI_LABELS"] if tasks else []))
    for pod_set in job.pod_sets:
        for path, name, value in _given_variables(pod_set):
            if name in world and value is None:
                yield Problem(
                    path,
                    f"the operator cannot read the value of {name}, which must be {world[name]!r}"
                    f" (see {_FIELDS[name]}): remove the variable",
                )
            elif name in hidden and (name, value) not in same:
                yield Problem(
                    path,
                    f"{name} overrides the value that the operator sets for each rank: remove it,"
                    " or choose another name",
                )


def _known_values(job: DIJob) -> dict[str, str]:
    """Return the values that the variables of `_FIELDS` must have in this job."""
    queue = job.spec.message_queue
    found = {
        "DI_TOPOLOGY": job.topology.value,
        "DI_PARALLEL_WORKERS": str(job.workers),
        "DI_MQ_TYPE": job.queue,
    }
    if queue and queue.type is Queue.REDIS:
        found |= {"DI_REDIS_HOST": queue.host or job.server, "DI_REDIS_PORT": str(queue.port)}
    return found


def _given_variables(pod_set: PodSet) -> Iterator[tuple[str, str, str | None]]:
    """Yield the path, name and value of each of the main container's variables.

    The value is None if it is known only in the cluster, as with valueFrom or a $(REFERENCE).
    """
    for at, entry in enumerate(entries_at(pod_set.main_container, "env")):
        value = entry.get("value")
        literal = entry.get("valueFrom") is None and "$(" not in str(value)
        path = f"{pod_set.main_path}.env[{at}]"
        yield path, str(entry.get("name")), str(value or "") if literal else None


def _describe_conflict(name: str, value: str | None, expected: str) -> str:
    return (
        f"{name} is {value!r}, but the job has {expected!r}: remove the variable, and set"
        f" {_FIELDS[name]} if you want {value!r}"
    )
