"""CEL rules with their messages; api/checks.py checks the same in objects older than a rule."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic.alias_generators import to_camel

from dijob import names
from dijob.api import checks
from dijob.api import template_checks as template
from dijob.api.spec import Spec
from dijob.api.traits import Immutable, Mutable, traits


@dataclass(frozen=True)
class Rule:
    """One entry of x-kubernetes-validations.

    `expression` is CEL for a message with values in it; `field` is the path, below the rule's own
    place, that the error is shown at.
    """

    rule: str
    message: str
    expression: str = ""
    field: str = ""
    reason: str = "FieldValueInvalid"

    def manifest(self) -> dict[str, Any]:
        """The rule as the CRD writes it."""
        out: dict[str, Any] = {"rule": self.rule, "message": self.message, "reason": self.reason}
        if self.expression:
            out["messageExpression"] = self.expression
        if self.field:
            out["fieldPath"] = self.field
        return out


# Rules about changes are at the root, where they see the status: an ended job has its own rule.
_ENDED: Final = (
    f"(has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase in ['{names.Phase.SUCCEEDED}', "
    f"'{names.Phase.FAILED}'])"
)
# While the job is suspended, no pods were made from the fields.
_FREE: Final = f"({_ENDED} || (has(oldSelf.spec.suspend) && oldSelf.spec.suspend))"


def _name(task: str) -> str:
    """CEL: the name of a task (itself CEL), else its type."""
    return f"(has({task}.name) && {task}.name != '' ? {task}.name : {task}.type)"


_NAME: Final = _name("t")


def _same(field: str) -> str:
    """CEL: an optional field of the spec keeps its value, or stays absent."""
    same = f"(!has(self.spec.{field}) || self.spec.{field} == oldSelf.spec.{field})"
    return f"(has(self.spec.{field}) == has(oldSelf.spec.{field}) && {same})"


def _immutable() -> Iterator[Rule]:
    """One rule for each field that keeps its value while the job is not suspended."""
    for name, trait in traits(Spec, Immutable).items():
        if not trait.in_part:
            field = to_camel(name)
            yield Rule(
                rule=f"{_FREE} || {_same(field)}",
                message=f"{field} cannot be changed: {trait.why}; {_ANEW}",
                field=f".spec.{field}",
            )


def _tasks_unchanged(what: str, value: str) -> Rule:
    """A value of each task (CEL with the task as t) stays the same, in the tasks' order."""
    each = f".map(t, {value})"
    return Rule(
        rule=f"{_FREE} || !has(self.spec.tasks) || !has(oldSelf.spec.tasks) || "
        f"self.spec.tasks{each} == oldSelf.spec.tasks{each}",
        message=f"tasks: {what} cannot be changed: the running pods were made from it; {_ANEW}",
        field=".spec.tasks",
    )


def _nothing_changed() -> Rule:
    """A job that has ended keeps the fields whose change would have no effect."""
    mutable = {name for name, when in traits(Spec, Mutable).items() if when is Mutable.ALWAYS}
    held = sorted(map(to_camel, Spec.model_fields.keys() - mutable))
    return Rule(
        rule=f"!{_ENDED} || ({' && '.join(map(_same, held))})",
        message=checks.ENDED_MESSAGE.format(f"{names.Phase.SUCCEEDED} or {names.Phase.FAILED}"),
        expression="'" + checks.ENDED_MESSAGE.format("' + self.status.phase + '") + "'",
        field=".spec",
        reason="FieldValueForbidden",
    )


def _replicas(rule: str, other: str) -> Rule:
    # No values in the message: CEL's cost estimate has no bound for string(int), 100 x the budget.
    return Rule(
        rule=f"!has(self.replicas) || !has(self.{other}) || {rule}",
        message=f"replicas must be from minReplicas to maxReplicas: change replicas and {other} in one edit "
        "(where your file has no replicas, the operator or kubectl scale wrote it: add it to the file)",
        field=".replicas",
    )


_ANEW: Final = "suspend the job first (spec.suspend: true), or create another one under another name"
# CEL: the template's pods are not restarted in place.
_NEVER: Final = "(has({0}.spec) && has({0}.spec.restartPolicy) && {0}.spec.restartPolicy == 'Never')"
_LAST: Final = _name("self.spec.tasks[self.spec.tasks.size() - 1]")
_ORDINARY: Final = ", ".join(f"'{name}'" for name in names.ORDINARY_CONDITIONS)
_HOMOGENEOUS: Final = ", ".join(f"'{runtime}'" for runtime in checks.HOMOGENEOUS)
_RESERVED: Final = ", ".join(f"'{name}'" for name in names.RESERVED_ENV)
_ENV: Final = (
    Rule(
        rule=f"!(self.name in [{_RESERVED}])",
        message=f"this variable {template.RESERVED_MESSAGE}",
        expression=f"self.name + ' {template.RESERVED_MESSAGE}'",
        field=".name",
        reason="FieldValueForbidden",
    ),
)
_PREFIX: Final = (Rule(rule=f"self.all(key, !key.startsWith('{names.GROUP}/'))", message=template.PREFIX_MESSAGE),)


def _of_template(path: str) -> dict[str, tuple[Rule, ...]]:
    """The rules of a pod template, wherever it stands."""
    return {
        f"{path}": (
            Rule(rule="!has(self.containers)", message=template.SLIP_MESSAGE, field=".containers"),
            Rule(
                rule="has(self.containers) || (has(self.spec) && has(self.spec.containers) && "
                "self.spec.containers.size() > 0)",
                message=f"template {template.NO_CONTAINER_MESSAGE}",
                field=".spec",
                reason="FieldValueRequired",
            ),
        ),
        f"{path}.metadata.labels": _PREFIX,
        f"{path}.metadata.annotations": _PREFIX,
        f"{path}.spec": (
            Rule(
                rule="!has(self.restartPolicy) || self.restartPolicy in ['OnFailure', 'Never']",
                message=f"restartPolicy: {template.RESTART_MESSAGE}",
                field=".restartPolicy",
            ),
            *(
                Rule(
                    rule=f"!has(self.{field}) || self.{field} == ''",
                    message=f"{field} {template.OWNED_MESSAGE}",
                    field=f".{field}",
                    reason="FieldValueForbidden",
                )
                for field in ("hostname", "subdomain")
            ),
        ),
        f"{path}.spec.containers[].env[]": _ENV,
        f"{path}.spec.initContainers[].env[]": _ENV,
    }


# By the path of the schema that carries them (see schema.at).
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "": (
        Rule(
            rule=f"self.metadata.name.size() <= {checks.NAME_LENGTH} "
            f"&& self.metadata.name.matches('^{checks.NAME_PATTERN}$')",
            message=f"metadata.name {checks.NAME_MESSAGE}",
            field=".metadata.name",
        ),
        *_immutable(),
        Rule(
            rule=f"{_FREE} || has(self.spec.tasks) == has(oldSelf.spec.tasks)",
            message=f"tasks cannot be added or taken away: the running pods were made from them; {_ANEW}",
            field=".spec.tasks",
        ),
        _tasks_unchanged("their names, types and order", f"{_NAME} + '/' + t.type"),
        _tasks_unchanged("their templates", "t.template"),
        Rule(
            rule=f"{_FREE} || !has(self.spec.tasks) || !has(oldSelf.spec.tasks) || "
            f"self.spec.tasks.filter(t, {_NAME} != {_LAST}).map(t, t.replicas) == "
            f"oldSelf.spec.tasks.filter(t, {_NAME} != {_LAST}).map(t, t.replicas)",
            message="tasks: only the last task's replicas can be changed: ranks are numbered through all tasks, and "
            f"those behind would become others; {_ANEW}",
            field=".spec.tasks",
        ),
        _nothing_changed(),
    ),
    "spec": (
        Rule(rule="!has(self.tasks) || !has(self.template)", message=checks.ONE_SHAPE_MESSAGE, field=".tasks"),
        Rule(
            rule="has(self.tasks) || has(self.template)",
            message=checks.NO_SHAPE_MESSAGE,
            field=".template",
            reason="FieldValueRequired",
        ),
        Rule(
            rule="!has(self.tasks) || !(has(self.replicas) || has(self.minReplicas) || has(self.maxReplicas))",
            message=f"replicas: {checks.TASKS_SIZE_MESSAGE}",
            field=".replicas",
            reason="FieldValueForbidden",
        ),
        Rule(
            rule="has(self.tasks) || has(self.replicas) || has(self.minReplicas) || has(self.maxReplicas)",
            message=checks.NO_SIZE_MESSAGE,
            reason="FieldValueRequired",
        ),
        Rule(
            rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            message="minReplicas must not be greater than maxReplicas: change one of them",
            field=".minReplicas",
        ),
        _replicas("self.replicas >= self.minReplicas", "minReplicas"),
        _replicas("self.replicas <= self.maxReplicas", "maxReplicas"),
        Rule(
            rule="!has(self.successPolicy) || self.successPolicy in "
            f"['{names.ALL_REPLICAS}', '{names.RANK_0}'] || (has(self.tasks) && self.tasks.exists(t, "
            f"{_NAME} == self.successPolicy))",
            message=f"successPolicy must be {names.ALL_REPLICAS}, {names.RANK_0} or the name of one of the job's tasks",
            field=".successPolicy",
        ),
        Rule(
            rule="!has(self.failurePolicy) || !has(self.failurePolicy.rules) || self.failurePolicy.rules.all(r, "
            f"!has(r.task) || r.task == '' || (has(self.tasks) && self.tasks.exists(t, {_NAME} == r.task)))",
            message="failurePolicy.rules[].task must be the name of one of the job's tasks",
            field=".failurePolicy",
        ),
        Rule(
            rule="!has(self.failurePolicy) || !has(self.failurePolicy.rules) || self.failurePolicy.rules.all(r, "
            f"!has(r.onExitCodes) || ((!has(self.template) || {_NEVER.format('self.template')}) "
            f"&& (!has(self.tasks) || self.tasks.all(t, (has(r.task) && r.task != '' && r.task != {_NAME}) "
            f"|| {_NEVER.format('t.template')}))))",
            message=f"failurePolicy.rules[].onExitCodes {checks.EXIT_CODE_MESSAGE}",
            field=".failurePolicy",
        ),
        Rule(
            rule=f"!has(self.runtime) || !(self.runtime in [{_HOMOGENEOUS}]) || !has(self.tasks)",
            message=f"runtime: {checks.HOMOGENEOUS_MESSAGE}",
            field=".runtime",
        ),
        Rule(
            rule="!has(self.messageQueue) || (has(self.messageQueue.type) && self.messageQueue.type == 'redis') || "
            "!has(self.messageQueue.host) || self.messageQueue.host == ''",
            message=f"messageQueue.host {checks.HOST_MESSAGE}",
            field=".messageQueue",
        ),
    ),
    "spec.group": (Rule(rule=f"self.matches('^{checks.GROUP_PATTERN}$')", message=f"group {checks.GROUP_MESSAGE}"),),
    "spec.tasks": (
        Rule(
            rule=f"self.all(a, self.exists_one(t, {_NAME} == {_name('a')}))",
            message=checks.TASK_TWICE_MESSAGE,
        ),
        Rule(
            rule="self.all(a, a.type == 'none' || self.exists_one(t, t.type == a.type))",
            message=checks.TYPE_TWICE_MESSAGE,
        ),
    ),
    "spec.failurePolicy.rules[].onPodConditions[]": (
        Rule(
            rule=f"!(self.type in [{_ORDINARY}])",
            message=f"type {checks.ORDINARY_MESSAGE}",
            field=".type",
        ),
    ),
    "spec.tasks[]": (
        Rule(rule="!has(self.name) || self.name != 'num'", message=f"name: {checks.NUM_MESSAGE}", field=".name"),
        Rule(
            rule="self.type != 'none' || (has(self.name) && self.name != '')",
            message=checks.NO_TASK_NAME_MESSAGE,
            field=".name",
            reason="FieldValueRequired",
        ),
        Rule(
            rule=f"!has(self.name) || self.name == '' || self.name.matches('^{checks.TASK_NAME_PATTERN}$')",
            message=f"name {checks.TASK_NAME_MESSAGE}",
            field=".name",
        ),
    ),
    **_of_template("spec.template"),
    **_of_template("spec.tasks[].template"),
}
