"""What a schema cannot say, as CEL, each with our own sentence; checks.py says the same of old objects."""

from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.spec import checks


@dataclass(frozen=True)
class Rule:
    """One entry of x-kubernetes-validations.

    `message` is the sentence; `expression` is CEL for a sentence that holds values; `field` is the path below
    the rule's own place that the error is shown at.
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


def _unchanged(field: str, why: str) -> Rule:
    """The optional field keeps its value, or keeps being absent."""
    same = f"(!has(self.{field}) || self.{field} == oldSelf.{field})"
    return Rule(
        rule=f"has(self.{field}) == has(oldSelf.{field}) && {same}",
        message=f"{field} cannot be changed: {why}; {_ANEW}",
        field=f".{field}",
    )


def _replicas(rule: str, other: str) -> Rule:
    # Its values are not in the sentence: string(int) has no bound for CEL's cost estimate (100 x over budget).
    return Rule(
        rule=f"!has(self.replicas) || !has(self.{other}) || {rule}",
        message=f"replicas must be from minReplicas to maxReplicas: change replicas and {other} in one edit "
        "(where your file has no replicas, the operator or kubectl scale wrote it: add it to the file)",
        field=".replicas",
    )


_ANEW: Final = "delete the job and create it anew, or give the new one another name"
_RESERVED: Final = ", ".join(f"'{name}'" for name in names.RESERVED_ENV)
_ENV: Final = (
    Rule(
        rule=f"!(self.name in [{_RESERVED}])",
        message=f"this variable {checks.RESERVED_MESSAGE}",
        expression=f"self.name + ' {checks.RESERVED_MESSAGE}'",
        field=".name",
        reason="FieldValueForbidden",
    ),
)
_PREFIX: Final = (Rule(rule=f"self.all(key, !key.startsWith('{names.GROUP}/'))", message=checks.PREFIX_MESSAGE),)

# By the path of the schema that carries them (see schema.at).
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "": (
        Rule(
            rule=f"self.metadata.name.size() <= {checks.NAME_LENGTH} "
            f"&& self.metadata.name.matches('^{checks.NAME_PATTERN}$')",
            message=f"metadata.name {checks.NAME_MESSAGE}",
            field=".metadata.name",
        ),
    ),
    "spec": (
        Rule(
            rule="has(self.replicas) || has(self.minReplicas) || has(self.maxReplicas)",
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
        _unchanged("parallelWorkers", "it decides the size of the world that the running processes know"),
        _unchanged("topology", "the running processes are connected by it"),
    ),
    **{
        f"spec.{field}": (
            Rule(
                rule="self == oldSelf",
                message=f"{field} cannot be changed: the running pods were made with it; {_ANEW}",
            ),
        )
        for field in ("addressing", "launcher")
    },
    "spec.template": (
        Rule(rule="!has(self.containers)", message=checks.SLIP_MESSAGE, field=".containers"),
        Rule(
            rule="has(self.containers) || (has(self.spec) && has(self.spec.containers) && "
            "self.spec.containers.size() > 0)",
            message=f"template {checks.NO_CONTAINER_MESSAGE}",
            field=".spec",
            reason="FieldValueRequired",
        ),
        Rule(
            rule="self == oldSelf",
            message=f"template cannot be changed: the running pods were made from it; {_ANEW}",
        ),
    ),
    "spec.template.metadata.labels": _PREFIX,
    "spec.template.metadata.annotations": _PREFIX,
    "spec.template.spec": (
        Rule(
            rule="!has(self.restartPolicy) || self.restartPolicy in ['OnFailure', 'Never']",
            message=f"restartPolicy: {checks.RESTART_MESSAGE}",
            field=".restartPolicy",
        ),
        Rule(
            rule="!has(self.hostNetwork) || !self.hostNetwork",
            message=f"hostNetwork {checks.HOST_NETWORK_MESSAGE}",
            field=".hostNetwork",
            reason="FieldValueForbidden",
        ),
        *(
            Rule(
                rule=f"!has(self.{field}) || self.{field} == ''",
                message=f"{field} {checks.OWNED_MESSAGE}",
                field=f".{field}",
                reason="FieldValueForbidden",
            )
            for field in ("hostname", "subdomain")
        ),
    ),
    "spec.template.spec.containers[].env[]": _ENV,
    "spec.template.spec.initContainers[].env[]": _ENV,
}
