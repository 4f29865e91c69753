"""CEL rules that make fields of a job immutable while it has pods, or after it has ended.

The rules are at the root of the object. A CEL rule sees only fields below its own position, and
these rules need the status as well as the spec (docs/decisions/011 and 016).
"""

from collections.abc import Iterator
from typing import Final, get_args

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from dijob import names
from dijob.api import checks
from dijob.api.spec import Spec
from dijob.api.traits import Fixed, Immutable, Mutable, defaulted_fields, traits_by_field
from dijob.crd.rule import Rule
from dijob.reasons import Invalid

SUSPEND_FIRST: Final = (
    "suspend the job first (spec.suspend: true), or create a job with a different name"
)
# CEL: whether the job had ended before the change. Of the rules about changes, only nothing_changed
# applies to a job that has ended. So the user gets only one message.
ENDED: Final = (
    f"oldSelf.?status.?phase.orValue('') in ['{names.Phase.SUCCEEDED}', '{names.Phase.FAILED}']"
)
# CEL: whether the job was suspended or had ended before the change. The rules for immutable fields
# then do not apply. A suspended job has no pods that were created from these fields. If the job had
# ended, the rule nothing_changed rejects the change.
UNBOUND: Final = f"oldSelf.spec.?suspend.orValue(false) || {ENDED}"
# CEL: whether `replicas` is new or has changed in a job that has not ended. The new object must
# have `replicas`.
REPLICAS_CHANGED: Final = (
    f"(!has(oldSelf.spec.replicas) || oldSelf.spec.replicas != self.spec.replicas) && !({ENDED})"
)
# The fields in which some parts may have any content.
_OPEN: Final = ("template", "tasks", "volumes", "networkPolicy")
# CEL: whether the operator has reported that the spec does not match the running pods. The rules
# accept some changes to a template, because `==` does not notice them (see _are_equal). An older
# CRD accepted further changes. The user must be able to revert such a change while the job runs.
_MISMATCH: Final = (
    "(has(oldSelf.status) && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c,"
    f" c.type == '{Invalid.TemplateChanged.condition}' && c.status == 'True'"
    f" && c.reason == '{Invalid.TemplateChanged.name}'))"
)
_DEFAULTED: Final = defaulted_fields(Spec)


def _are_equal(was: str, now: str) -> str:
    """Return CEL for the equality of two values, parts of which may have any content.

    Where any content is allowed, the apiserver ignores an undeclared field on the left of `==` if
    the right side lacks that field. So if `arg` replaces `args` in a template, the old and the
    new template are equal when compared in one direction. If one undeclared field replaces another,
    neither of the two comparisons finds a difference. So the rule does not detect this change, but
    the operator reports it (TemplateChanged).
    """
    return f"({now} == {was} && {was} == {now} || {_is_not_comparable(now)})"


def _is_not_comparable(value: str) -> str:
    """Return CEL for the condition that an object is not equal to itself.

    Kubernetes 1.30 treats a declared field that is null as absent on the right of `==`, but not on
    the left (k8s.io/apiserver, pkg/cel/common/values.go, unstructuredMap). Without this condition,
    the rule would reject each write of such an object, including the operator's status updates. The
    operator reports a change that this condition lets through.
    """
    return f"{value} != {value}"


def _stays_same(name: str) -> str:
    """Return CEL for the condition that a field of the spec keeps its value, or stays absent.

    The apiserver evaluates all rules whenever a status is written. Whenever a rule reads
    `object.field` and the field exists, the apiserver copies the schema of all fields of the
    object. So a rule names few fields, and the expression that is nearly always true comes first. A
    field with a default needs no test for existence.
    """
    field = to_camel(name)
    was, now = f"oldSelf.spec.{field}", f"self.spec.{field}"
    if name in _DEFAULTED:
        return f"{now} == {was}"
    same = f"{now} == {was}"
    if name in _OPEN:
        same = _are_equal(was, now)
    elif _is_object(name):
        same = f"({same} || {_is_not_comparable(now)})"
    # Not `self.spec.?x == oldSelf.spec.?x`, because the apiserver cannot estimate its cost.
    return f"(has({now}) ? has({was}) && {same} : !has({was}))"


def _is_object(name: str) -> bool:
    """Whether a field of the spec is an object with declared fields."""
    annotation = Spec.model_fields[name].annotation
    kinds = (annotation, *get_args(annotation))
    return any(isinstance(each, type) and issubclass(each, BaseModel) for each in kinds)


def _may_change(name: str) -> str:
    """Return CEL that is true whenever a normally immutable field of the spec may change."""
    return f"{UNBOUND} || {_MISMATCH}" if name in _OPEN else UNBOUND


def immutable_fields() -> Iterator[Rule]:
    """Yield one rule for each field that is immutable unless the job is suspended."""
    for name, trait in traits_by_field(Spec, Immutable).items():
        if not trait.in_part:
            field = to_camel(name)
            yield Rule(
                rule=f"{_stays_same(name)} || {_may_change(name)}",
                message=f"{field} cannot be changed: {trait.why}; {SUSPEND_FIRST}",
                field=f".spec.{field}",
            )


def fixed_fields() -> Iterator[Rule]:
    """Yield one rule for each field that can never be changed."""
    for name, trait in traits_by_field(Spec, Fixed).items():
        field = to_camel(name)
        yield Rule(
            rule=f"{_stays_same(name)} || {ENDED}",
            message=(
                f"{field} cannot be changed, even while the job is suspended: {trait.why}; create"
                " a job with a different name"
            ),
            field=f".spec.{field}",
        )


def server_port() -> Rule:
    """Return the rule that the job's own Redis server must keep its port, even while the job is
    suspended.

    The server's Service keeps the port, and the operator has no permission to change Services.
    """
    now, was = "self.spec.messageQueue", "oldSelf.spec.messageQueue"
    port = f".?port.orValue({names.REDIS_PORT})"
    own = f"{{0}}.?type.orValue('') == '{names.Queue.REDIS}' && {{0}}.?host.orValue('') == ''"
    return Rule(
        rule=(
            f"!has({now}) || !has({was}) || {now}{port} == {was}{port} || "
            f"!({own.format(now)}) || !({own.format(was)}) || "
            # If the job is not suspended, the rule for messageQueue already rejects the change.
            f"!oldSelf.spec.?suspend.orValue(false) || {ENDED}"
        ),
        message=(
            "messageQueue.port cannot be changed if the operator runs the Redis server, because the"
            " server's Service keeps its port: keep the old port, or create a job with a"
            " different name"
        ),
        field=".spec.messageQueue.port",
    )


def last_task_size(when: str) -> Rule:
    """Return the rule for `replicas` of a job with tasks, where `replicas` is the size of the last
    task. The rule applies only if the CEL condition `when` is true.

    If only the task has been changed, the rule does not apply, because the operator then updates
    `replicas`.
    """
    last, size = "self.spec.tasks[self.spec.tasks.size() - 1]", "self.spec.replicas"
    return Rule(
        rule=(
            f"!has(self.spec.tasks) || !has({size}) || !({when}) ||"
            f" {last}.?minReplicas.orValue(1) <= {size} &&"
            f" {size} <= {last}.?maxReplicas.orValue({names.MAX_REPLICAS}) &&"
            f" self.spec.tasks.map(t, t.replicas).sum() - {last}.replicas + {size} <="
            f" {names.MAX_REPLICAS}"
        ),
        message=f"replicas {checks.SCALE_MESSAGE}",
        field=".spec.replicas",
    )


def one_size_changed() -> Rule:
    """Return the rule for a request that changes both `replicas` and the last task's own field.
    Such a request must set both to the same value. Otherwise, the operator would ignore the new
    value of `replicas` (api/last_task.py).
    """
    last = "tasks[{0}.spec.tasks.size() - 1].replicas"
    now, was = (f"{each}.spec.{last.format(each)}" for each in ("self", "oldSelf"))
    return Rule(
        rule=(
            "!has(self.spec.tasks) || !has(oldSelf.spec.tasks) || !has(self.spec.replicas) ||"
            " !has(oldSelf.spec.replicas) || self.spec.replicas == oldSelf.spec.replicas ||"
            f" {now} == {was} || {now} == self.spec.replicas || {ENDED}"
        ),
        message=checks.TWO_SIZES_MESSAGE,
        field=".spec.replicas",
    )


def tasks_unchanged(what: str, value: str) -> Rule:
    """Return the rule that rejects a change of a value in any task.

    `value` is CEL with the task as t. The message refers to the value by the words in `what`.
    """
    each = f".map(t, {value})"
    return Rule(
        rule=(
            "!has(self.spec.tasks) || !has(oldSelf.spec.tasks) || "
            f"{_are_equal(f'oldSelf.spec.tasks{each}', f'self.spec.tasks{each}')}"
            f" || {_may_change('tasks')}"
        ),
        message=(
            f"tasks: {what} cannot be changed: the running pods were created from them;"
            f" {SUSPEND_FIRST}"
        ),
        field=".spec.tasks",
    )


def nothing_changed() -> Rule:
    """Return the rule for jobs that have ended: fields that have no effect after the end
    are immutable.

    Otherwise the apiserver would accept a correction that never takes effect (docs/decisions/016).
    """
    mutable = {
        name for name, when in traits_by_field(Spec, Mutable).items() if when is Mutable.ALWAYS
    }
    held = sorted(Spec.model_fields.keys() - mutable, key=to_camel)
    return Rule(
        rule=f"!({ENDED}) || ({' && '.join(map(_stays_same, held))})",
        message=checks.ENDED_MESSAGE.format(f"{names.Phase.SUCCEEDED} or {names.Phase.FAILED}"),
        expression="'" + checks.ENDED_MESSAGE.format("' + self.status.phase + '") + "'",
        field=".spec",
        reason="FieldValueForbidden",
    )
