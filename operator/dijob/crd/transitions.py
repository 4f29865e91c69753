"""CEL rules about changes of a job: what is immutable while it has pods, and after its end."""

from collections.abc import Iterator
from typing import Final

from pydantic.alias_generators import to_camel

from dijob import names
from dijob.api import checks
from dijob.api.spec import Spec
from dijob.api.traits import Immutable, Mutable, traits
from dijob.crd.rule import Rule

ANEW: Final = "suspend the job first (spec.suspend: true), or create another one under another name"
# Rules about changes are at the root, where they see the status: an ended job has its own rule.
ENDED: Final = (
    "(has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase in"
    f" ['{names.Phase.SUCCEEDED}', '{names.Phase.FAILED}'])"
)
# While the job is suspended, no pods were made from the fields.
UNBOUND: Final = f"({ENDED} || (has(oldSelf.spec.suspend) && oldSelf.spec.suspend))"


def _same(field: str) -> str:
    """CEL: an optional field of the spec keeps its value, or stays absent.

    Each write of a status evaluates all rules, and each `.field` costs the apiserver a map of all
    fields of that object: so a rule names few, and what is nearly always true comes first.
    """
    was, now = f"oldSelf.spec.{field}", f"self.spec.{field}"
    # Not `self.spec.?x == oldSelf.spec.?x`: Kubernetes cannot estimate what that may cost.
    return f"(has({now}) ? has({was}) && {now} == {was} : !has({was}))"


def immutable_fields() -> Iterator[Rule]:
    """One rule for each field that keeps its value while the job is not suspended."""
    for name, trait in traits(Spec, Immutable).items():
        if not trait.in_part:
            field = to_camel(name)
            yield Rule(
                rule=f"{_same(field)} || {UNBOUND}",
                message=f"{field} cannot be changed: {trait.why}; {ANEW}",
                field=f".spec.{field}",
            )


def tasks_unchanged(what: str, value: str) -> Rule:
    """A value of each task (CEL with the task as t) stays the same, in the tasks' order."""
    each = f".map(t, {value})"
    return Rule(
        rule=(
            "!has(self.spec.tasks) || !has(oldSelf.spec.tasks) || "
            f"self.spec.tasks{each} == oldSelf.spec.tasks{each} || {UNBOUND}"
        ),
        message=f"tasks: {what} cannot be changed: the running pods were made from it; {ANEW}",
        field=".spec.tasks",
    )


def nothing_changed() -> Rule:
    """A job that has ended keeps the fields whose change would have no effect."""
    mutable = {name for name, when in traits(Spec, Mutable).items() if when is Mutable.ALWAYS}
    held = sorted(map(to_camel, Spec.model_fields.keys() - mutable))
    return Rule(
        rule=f"!{ENDED} || ({' && '.join(map(_same, held))})",
        message=checks.ENDED_MESSAGE.format(f"{names.Phase.SUCCEEDED} or {names.Phase.FAILED}"),
        expression="'" + checks.ENDED_MESSAGE.format("' + self.status.phase + '") + "'",
        field=".spec",
        reason="FieldValueForbidden",
    )
