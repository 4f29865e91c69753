"""Variables of the operator that a template sets itself, against what the job says.

The template's own value wins in the pod. The operator goes by the spec, so a value that contradicts
it has two sides that disagree: which ranks dial which, how many processes there are, and by which
queue. A job that asks for this is refused before its first pod. A job that an older operator has
accepted keeps running, and is warned of instead.
"""

from collections.abc import Iterator
from typing import Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet, entries
from dijob.api.problems import Problem
from dijob.names import Queue

# Each variable of a world, with the field that decides it.
_FIELDS: Final = {
    "DI_TOPOLOGY": "spec.topology",
    "DI_PARALLEL_WORKERS": "spec.parallelWorkers",
    "DI_MQ_TYPE": "spec.messageQueue.type",
    "DI_REDIS_HOST": "spec.messageQueue.host",
    "DI_REDIS_PORT": "spec.messageQueue.port",
}
# Of no account for the other ranks.
_NAMES: Final = ("DI_JOB_ID", "DI_JOB_NAME", "DI_JOB_NAMESPACE")


def contradictions(job: DIJob) -> tuple[Problem, ...]:
    """Variables in the templates that contradict the spec."""
    expected = _world(job)
    return tuple(
        Problem(path, _contradiction(name, value, expected[name]))
        for pod_set in job.pod_sets
        for path, name, value in _given(pod_set)
        if name in expected and value not in (None, expected[name])
    )


def replaced(job: DIJob) -> Iterator[Problem]:
    """Variables in the templates that hide the operator's own, or whose value cannot be read."""
    world, meta = _world(job), job.metadata
    same = {("DI_JOB_NAME", meta.name), ("DI_JOB_NAMESPACE", meta.namespace)}
    tasks = [pod_set.name for pod_set in job.pod_sets if pod_set.name]
    hidden = (*_NAMES, *map(names.nodes_variable, tasks), *(["DI_LABELS"] if tasks else []))
    for pod_set in job.pod_sets:
        for path, name, value in _given(pod_set):
            if name in world and value is None:
                yield Problem(
                    path,
                    f"{name} has a value that the operator cannot read; it must be {world[name]!r},"
                    f" as in {_FIELDS[name]}: remove the variable",
                )
            elif name in hidden and (name, value) not in same:
                yield Problem(
                    path,
                    f"{name} overrides the value that the operator sets for each rank: remove it,"
                    " or choose another name",
                )


def _world(job: DIJob) -> dict[str, str]:
    """The values of a world's variables, as far as the job decides them."""
    queue = job.spec.message_queue
    found = {
        "DI_TOPOLOGY": job.topology.value,
        "DI_PARALLEL_WORKERS": str(job.workers),
        "DI_MQ_TYPE": job.queue,
    }
    if queue and queue.type is Queue.REDIS:
        found |= {"DI_REDIS_HOST": queue.host or job.server, "DI_REDIS_PORT": str(queue.port)}
    return found


def _given(pod_set: PodSet) -> Iterator[tuple[str, str, str | None]]:
    """The variables of the main container: path, name, and value. The value is None if only the
    cluster knows it.
    """
    for at, entry in enumerate(entries(pod_set.main_container, "env")):
        value = entry.get("value")
        literal = entry.get("valueFrom") is None and "$(" not in str(value)
        path = f"{pod_set.main_path}.env[{at}]"
        yield path, str(entry.get("name")), str(value or "") if literal else None


def _contradiction(name: str, value: str | None, expected: str) -> str:
    return (
        f"{name} is {value!r}, but the job has {expected!r}: remove the variable, and set"
        f" {_FIELDS[name]} if you want {value!r}"
    )
