"""The CEL rules of the CRD with their messages.

With these rules, `kubectl apply` rejects an invalid job immediately. api/checks.py has the same
rules, for objects that were created before a rule was added. The apiserver estimates the cost of
each rule from the bounds of the schema, and rejects a CRD above its budget. For this reason, some
rules are written indirectly.
"""

from enum import StrEnum
from typing import Final

from dijob import names
from dijob.api import checks
from dijob.api import template_checks as template
from dijob.crd import naming
from dijob.crd.rule import NAME_OF_T, Rule, task_name
from dijob.crd.transitions import (
    REPLICAS_CHANGED,
    SUSPEND_FIRST,
    UNBOUND,
    fixed_fields,
    immutable_fields,
    last_task_size,
    nothing_changed,
    one_size_changed,
    server_port,
    tasks_unchanged,
)

# A number larger than any that the schema allows.
_BEYOND: Final = 2**62


def _at_most(few: str, many: str) -> str:
    """Return CEL for the condition that one number in the spec is not greater than another.

    If one of the two numbers is absent, the condition is true for every value of the other one.
    This includes a value that is out of bounds: the schema reports it with its own message.
    """
    return f"self.?{few}.orValue({-_BEYOND}) <= self.?{many}.orValue({_BEYOND})"


def _replicas_rule(rule: str, other: str) -> Rule:
    # The message contains no values: the estimated cost of string(int) is 100 times the budget.
    return Rule(
        rule=rule,
        message=(
            f"replicas must be between minReplicas and maxReplicas: change replicas and {other} in"
            " one edit (if replicas is not in your file, the operator or kubectl scale has set it:"
            " add it to the file)"
        ),
        field=".replicas",
    )


# CEL: whether a template has restartPolicy Never.
_NEVER: Final = (
    "(has({0}.spec) && has({0}.spec.restartPolicy) && {0}.spec.restartPolicy == 'Never')"
)
_LAST: Final = task_name("self.spec.tasks[self.spec.tasks.size() - 1]")
_ORDINARY: Final = ", ".join(f"'{name}'" for name in names.ORDINARY_CONDITIONS)
_HOMOGENEOUS: Final = ", ".join(f"'{runtime}'" for runtime in checks.HOMOGENEOUS)
_OF_TASKS: Final = ", ".join(f"'{runtime}'" for runtime in checks.TASK_RUNTIMES)
_RESERVED: Final = ", ".join(f"'{name}'" for name in names.RESERVED_ENV)
# With the reason FieldValueInvalid, an error begins with the value. Here the value is so long that
# the message would come only after more than 131,072 characters.
_WITHOUT_VALUE: Final = "FieldValueForbidden"
_WORD: Final = (
    Rule(
        rule=f"self.size() < {template.LONGEST_STRING}",
        message=f"this argument {template.LONG_MESSAGE}",
        reason=_WITHOUT_VALUE,
    ),
)
_ENV: Final = (
    Rule(
        rule=f"!(self.name in [{_RESERVED}])",
        message=f"this variable {template.RESERVED_MESSAGE}",
        expression=f"self.name + ' {template.RESERVED_MESSAGE}'",
        field=".name",
        reason="FieldValueForbidden",
    ),
    Rule(
        rule=f"!has(self.value) || self.name.size() + 1 + self.value.size() <"
        f" {template.LONGEST_STRING}",
        message=f"this variable {template.LONG_MESSAGE}",
        field=".value",
        reason=_WITHOUT_VALUE,
    ),
)
# Fields whose schema has no enum, because an enum cannot contain null (docs/decisions/047).
_NULLABLE_ENUMS: Final[dict[str, type[StrEnum]]] = {
    "spec.topology": names.Topology,
    "spec.engineFields.topology": names.Topology,
    "spec.restart.scope": names.RestartScope,
    "spec.scheduling.engine": names.Engine,
    "spec.stallPolicy": names.StallPolicy,
}
_PREFIX: Final = (
    Rule(rule=f"self.all(key, !key.startsWith('{names.GROUP}/'))", message=template.PREFIX_MESSAGE),
)


def _of_template(path: str) -> dict[str, tuple[Rule, ...]]:
    """Return the rules for the pod template at a path."""
    return {
        f"{path}": (
            Rule(rule="!has(self.containers)", message=template.SLIP_MESSAGE, field=".containers"),
            # If `containers` is misplaced, only the message about this mistake is shown.
            Rule(
                rule=(
                    "has(self.containers) || (has(self.spec) && has(self.spec.containers) && "
                    "self.spec.containers.size() > 0)"
                ),
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
        **_of_container(f"{path}.spec.containers[]"),
        **_of_container(f"{path}.spec.initContainers[]"),
    }


def _of_container(path: str) -> dict[str, tuple[Rule, ...]]:
    return {f"{path}.command[]": _WORD, f"{path}.args[]": _WORD, f"{path}.env[]": _ENV}


# Maps the path of a part of the schema (see schema.schema_at) to the rules of that part.
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    # Rules for the whole object: those that need its name or its status.
    "": (
        *naming.of_job(),
        naming.of_tasks(),
        *immutable_fields(),
        *fixed_fields(),
        server_port(),
        Rule(
            rule=f"has(self.spec.tasks) == has(oldSelf.spec.tasks) || {UNBOUND}",
            message=(
                "tasks cannot be added or removed: the running pods were created from them;"
                f" {SUSPEND_FIRST}"
            ),
            field=".spec.tasks",
        ),
        tasks_unchanged(
            "their names, types, runtimes and order",
            f"{NAME_OF_T} + '/' + t.type + '/' + (has(t.runtime) ? t.runtime : '')",
        ),
        tasks_unchanged("their templates", "t.template"),
        Rule(
            rule=(
                "!has(self.spec.tasks) || !has(oldSelf.spec.tasks) || "
                f"self.spec.tasks.filter(t, {NAME_OF_T} != {_LAST}).map(t, t.replicas) == "
                f"oldSelf.spec.tasks.filter(t, {NAME_OF_T} != {_LAST}).map(t, t.replicas) ||"
                f" {UNBOUND}"
            ),
            message=(
                "tasks: only the last task's replicas can be changed, because ranks are numbered"
                " across all tasks, and those of later tasks would be renumbered;"
                f" {SUSPEND_FIRST}"
            ),
            field=".spec.tasks",
        ),
        last_task_size("!has(self.status)"),
        last_task_size(REPLICAS_CHANGED),
        one_size_changed(),
        nothing_changed(),
    ),
    "spec": (
        Rule(
            rule="!has(self.tasks) || !has(self.template)",
            message=checks.ONE_SHAPE_MESSAGE,
            field=".tasks",
        ),
        Rule(
            rule="has(self.tasks) || has(self.template)",
            message=checks.NO_SHAPE_MESSAGE,
            field=".template",
            reason="FieldValueRequired",
        ),
        Rule(
            rule="!has(self.tasks) || !(has(self.minReplicas) || has(self.maxReplicas))",
            message=checks.TASKS_BOUNDS_MESSAGE,
            field=".tasks",
            reason="FieldValueForbidden",
        ),
        Rule(
            rule="!has(self.tasks) || !has(self.disruptionBudget)",
            message=f"disruptionBudget {checks.TASKS_BUDGET_MESSAGE}",
            field=".disruptionBudget",
            reason="FieldValueForbidden",
        ),
        Rule(
            rule=(
                "has(self.tasks) || has(self.replicas) || has(self.minReplicas) ||"
                " has(self.maxReplicas)"
            ),
            message=checks.NO_SIZE_MESSAGE,
            reason="FieldValueRequired",
        ),
        Rule(
            rule=_at_most("minReplicas", "maxReplicas"),
            message="minReplicas must not be greater than maxReplicas: change one of them",
            field=".minReplicas",
        ),
        _replicas_rule(_at_most("minReplicas", "replicas"), "minReplicas"),
        _replicas_rule(_at_most("replicas", "maxReplicas"), "maxReplicas"),
        Rule(
            rule=(
                f"!has(self.successPolicy) || self.successPolicy in ['{names.ALL_REPLICAS}',"
                f" '{names.RANK_0}'] || (has(self.tasks) && self.tasks.exists(t, {NAME_OF_T} =="
                " self.successPolicy))"
            ),
            message=(
                f"successPolicy must be {names.ALL_REPLICAS}, {names.RANK_0} or the name of one of"
                " the job's tasks"
            ),
            field=".successPolicy",
        ),
        Rule(
            rule=(
                "!has(self.failurePolicy) || !has(self.failurePolicy.rules) ||"
                " self.failurePolicy.rules.all(r, !has(r.task) || r.task == '' || (has(self.tasks)"
                f" && self.tasks.exists(t, {NAME_OF_T} == r.task)))"
            ),
            message="failurePolicy.rules[].task must be the name of one of the job's tasks",
            field=".failurePolicy",
        ),
        # A failure policy rule on exit codes requires restartPolicy: Never. This applies to the
        # template of the task that the rule names, or to all templates if the rule names no task.
        Rule(
            rule=(
                "!has(self.failurePolicy) || !has(self.failurePolicy.rules) ||"
                " self.failurePolicy.rules.all(r, !has(r.onExitCodes) || ((!has(self.template) ||"
                f" {_NEVER.format('self.template')}) && (!has(self.tasks) || self.tasks.all(t,"
                f" (has(r.task) && r.task != '' && r.task != {NAME_OF_T}) ||"
                f" {_NEVER.format('t.template')}))))"
            ),
            message=f"failurePolicy.rules[].onExitCodes {checks.EXIT_CODE_MESSAGE}",
            field=".failurePolicy",
        ),
        Rule(
            rule=f"!has(self.tasks) || !(self.runtime in [{_HOMOGENEOUS}])",
            message=f"runtime: {checks.HOMOGENEOUS_MESSAGE}",
            field=".runtime",
        ),
        # Jobs with one of the runtimes in _HOMOGENEOUS get only the message above.
        Rule(
            rule=(
                f"!has(self.tasks) || self.runtime in ['{names.Runtime.DITASK}', {_HOMOGENEOUS}] ||"
                " !self.tasks.exists(t, has(t.runtime))"
            ),
            message=f"tasks[].runtime: spec.runtime {checks.ONE_WORLD_MESSAGE}",
            field=".tasks",
            reason="FieldValueForbidden",
        ),
        Rule(
            rule="!has(self.stallPolicy) || has(self.stallSeconds)",
            message=f"stallPolicy {checks.STALL_POLICY_MESSAGE}",
            field=".stallPolicy",
        ),
        Rule(
            rule=f"!has(self.stallSeconds) || self.launcher != '{names.Launcher.OFF}'",
            message=f"stallSeconds {checks.STALL_LAUNCHER_MESSAGE}",
            field=".stallSeconds",
        ),
        Rule(
            rule=(
                f"!has(self.stallPolicy) || self.stallPolicy != '{names.StallPolicy.RESTART}' ||"
                " self.backoffLimit > 0"
            ),
            message=f"stallPolicy {checks.STALL_LIMIT_MESSAGE}",
            field=".stallPolicy",
        ),
        Rule(
            rule=(
                "!has(self.messageQueue) || (has(self.messageQueue.type) && self.messageQueue.type"
                " == 'redis') || !has(self.messageQueue.host) || self.messageQueue.host == ''"
            ),
            message=f"messageQueue.host {checks.HOST_MESSAGE}",
            field=".messageQueue",
        ),
    ),
    **{
        path: (
            Rule(
                rule=f"self in {[each.value for each in values]}",
                message="supported values: " + ", ".join(f'"{each}"' for each in values),
            ),
        )
        for path, values in _NULLABLE_ENUMS.items()
    },
    # This is a rule rather than a `pattern` in the schema, because the message of a pattern would
    # only repeat the regular expression. The same applies to the names of tasks.
    "spec.group": (
        Rule(
            rule=f"self.matches('^{checks.GROUP_PATTERN}$')",
            message=f"group {checks.GROUP_MESSAGE}",
        ),
    ),
    "spec.managedBy": (
        Rule(
            rule=f"self.matches('^{checks.MANAGER_PATTERN}$')",
            message=f"managedBy {checks.MANAGER_MESSAGE}",
        ),
    ),
    "spec.tasks": (
        Rule(
            rule=f"self.all(a, self.exists_one(t, {NAME_OF_T} == {task_name('a')}))",
            message=checks.TASK_TWICE_MESSAGE,
        ),
        Rule(
            rule="self.all(a, a.type == 'none' || self.exists_one(t, t.type == a.type))",
            message=checks.TYPE_TWICE_MESSAGE,
        ),
        Rule(
            rule=(
                "self.filter(t, has(t.minReplicas) || has(t.maxReplicas)).all(t,"
                f" {NAME_OF_T} == {task_name('self[self.size() - 1]')})"
            ),
            message=checks.LAST_TASK_MESSAGE,
            reason="FieldValueForbidden",
        ),
    ),
    "spec.failurePolicy.rules[].onPodConditions[]": (
        Rule(
            rule=f"!(self.type in [{_ORDINARY}])",
            message=f"type {checks.ORDINARY_MESSAGE}",
            field=".type",
        ),
    ),
    "spec.tasks[].runtime": (
        Rule(
            rule=f"self in [{_OF_TASKS}]",
            message=f"runtime {checks.TASK_RUNTIME_MESSAGE}",
        ),
    ),
    "spec.tasks[]": (
        Rule(
            rule=_at_most("minReplicas", "maxReplicas"),
            message=checks.TASK_BOUNDS_MESSAGE,
            field=".minReplicas",
        ),
        # If no number lies between the bounds, the rule above says so.
        Rule(
            rule=(
                f"{_at_most('minReplicas', 'replicas')} && {_at_most('replicas', 'maxReplicas')} ||"
                f" !({_at_most('minReplicas', 'maxReplicas')})"
            ),
            message=checks.TASK_SIZE_MESSAGE,
            field=".replicas",
        ),
        Rule(
            rule="!has(self.name) || self.name != 'num'",
            message=f"name: {checks.NUM_MESSAGE}",
            field=".name",
        ),
        Rule(
            rule="self.type != 'none' || (has(self.name) && self.name != '')",
            message=checks.NO_TASK_NAME_MESSAGE,
            field=".name",
            reason="FieldValueRequired",
        ),
        Rule(
            rule=(
                "!has(self.name) || self.name == '' ||"
                f" self.name.matches('^{checks.TASK_NAME_PATTERN}$')"
            ),
            message=f"name {checks.TASK_NAME_MESSAGE}",
            field=".name",
        ),
    ),
    **_of_template("spec.template"),
    **_of_template("spec.tasks[].template"),
}
