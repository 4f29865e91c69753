"""CEL rules about changes of a job: what is immutable while it has pods, and after its end."""

from collections.abc import Iterator
from typing import Final

from pydantic.alias_generators import to_camel

from dijob import names
from dijob.api import checks
from dijob.api.spec import Spec
from dijob.api.traits import Immutable, Mutable, defaulted, traits
from dijob.crd.rule import Rule

ANEW: Final = "suspend the job first (spec.suspend: true), or create another job with another name"
# Rules about changes are at the root, where they see the status: an ended job has its own rule.
ENDED: Final = (
    f"oldSelf.?status.?phase.orValue('') in ['{names.Phase.SUCCEEDED}', '{names.Phase.FAILED}']"
)
# While the job is suspended, no pods were made from the fields.
UNBOUND: Final = f"oldSelf.spec.?suspend.orValue(false) || {ENDED}"
_DEFAULTED: Final = defaulted(Spec)


def _same(name: str) -> str:
    """CEL: a field of the spec keeps its value, or stays absent.

    Each write of a status evaluates all rules, and each `.field` that is there makes the apiserver
    copy the schema of all fields of that object: so a rule names few, what is nearly always true
    comes first, and what has a default is not asked whether it is there.
    """
    field = to_camel(name)
    was, now = f"oldSelf.spec.{field}", f"self.spec.{field}"
    if name in _DEFAULTED:
        return f"{now} == {was}"
    # Not `self.spec.?x == oldSelf.spec.?x`: Kubernetes cannot estimate what that may cost.
    return f"(has({now}) ? has({was}) && {now} == {was} : !has({was}))"


def immutable_fields() -> Iterator[Rule]:
    """One rule for each field that keeps its value while the job is not suspended."""
    for name, trait in traits(Spec, Immutable).items():
        if not trait.in_part:
            field = to_camel(name)
            yield Rule(
                rule=f"{_same(name)} || {UNBOUND}",
                message=f"{field} cannot be changed: {trait.why}; {ANEW}",
                field=f".spec.{field}",
            )


def server_port() -> Rule:
    """The job's own Redis server keeps its port, also where the job is suspended: its service has
    been made, and the operator has no right to change one.
    """
    now, was = "self.spec.messageQueue", "oldSelf.spec.messageQueue"
    port = f".?port.orValue({names.REDIS_PORT})"
    own = f"{{0}}.?type.orValue('') == '{names.Queue.REDIS}' && {{0}}.?host.orValue('') == ''"
    return Rule(
        rule=(
            f"!has({now}) || !has({was}) || {now}{port} == {was}{port} || "
            f"!({own.format(now)}) || !({own.format(was)}) || "
            # Of a job that is not suspended, messageQueue has been refused as a whole.
            f"!oldSelf.spec.?suspend.orValue(false) || {ENDED}"
        ),
        message=(
            "messageQueue.port of a Redis server that the operator runs cannot be changed, because"
            " its Service keeps its port: keep the old port, or create another job with another"
            " name"
        ),
        field=".spec.messageQueue.port",
    )


def tasks_unchanged(what: str, value: str) -> Rule:
    """A value of each task (CEL with the task as t) stays the same, in the tasks' order."""
    each = f".map(t, {value})"
    return Rule(
        rule=(
            "!has(self.spec.tasks) || !has(oldSelf.spec.tasks) || "
            f"self.spec.tasks{each} == oldSelf.spec.tasks{each} || {UNBOUND}"
        ),
        message=f"tasks: {what} cannot be changed: the running pods were created from them; {ANEW}",
        field=".spec.tasks",
    )


def nothing_changed() -> Rule:
    """A job that has ended keeps the fields whose change would have no effect."""
    mutable = {name for name, when in traits(Spec, Mutable).items() if when is Mutable.ALWAYS}
    held = sorted(Spec.model_fields.keys() - mutable, key=to_camel)
    return Rule(
        rule=f"!({ENDED}) || ({' && '.join(map(_same, held))})",
        message=checks.ENDED_MESSAGE.format(f"{names.Phase.SUCCEEDED} or {names.Phase.FAILED}"),
        expression="'" + checks.ENDED_MESSAGE.format("' + self.status.phase + '") + "'",
        field=".spec",
        reason="FieldValueForbidden",
    )
