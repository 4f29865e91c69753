"""The two fields that set the size of a job's last task: `spec.replicas` and the task's `replicas`.

Autoscalers write `spec.replicas`, and users write both. The operator never writes the task's field,
which belongs to the user's manifest. `spec.replicas` is the current size. If the task's field
changes, its new value becomes the size, and the operator copies it to `spec.replicas`. To notice
such a change, the operator keeps the last known value of the task's field in an annotation. It
writes the annotation and `spec.replicas` in the same request (docs/decisions/059).
"""

from collections.abc import Mapping

from dijob import names
from dijob.api.spec import Spec
from dijob.api.status import Status
from dijob.reasons import GangScheduled


def task_record(spec: Spec) -> str:
    """Return the annotation that records the last task and its `replicas`, such as "collector 4";
    "" for a job without tasks. The task's name is part of the annotation, because the tasks of a
    suspended job can be replaced.
    """
    if not spec.tasks:
        return ""
    last = spec.tasks[-1]
    return f"{last.name or last.type.value} {last.replicas}"


def without_outdated_size(spec: Spec, annotations: Mapping[str, str], status: Status) -> Spec:
    """Return the spec, but without `replicas` if its value is outdated.

    It is outdated if the last task's own field has changed since the operator last compared the two
    fields.
    """
    if not spec.tasks or spec.replicas is None:
        return spec
    known = annotations.get(names.ANNOTATION_LAST_TASK)
    if known is None:
        # The annotation can be missing for three reasons: the user has removed it, the user has
        # written both fields, or an older operator has written `replicas`. For such an operator,
        # `replicas` was the size of all tasks together (docs/decisions/056).
        current = status.desired in (0, spec.fixed + spec.replicas) or _is_admitted_in_part(status)
    else:
        current = known == task_record(spec)
    return spec if current else spec.model_copy(update={"replicas": None})


def _is_admitted_in_part(status: Status) -> bool:
    """Whether the size in the status is the one that Kueue has admitted, not the desired size."""
    return any(
        one.type == GangScheduled.__name__ and one.reason == GangScheduled.AdmittedInPart.name
        for one in status.conditions
    )
