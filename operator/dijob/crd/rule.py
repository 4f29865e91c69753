"""One CEL rule of the CRD, and the CEL expressions that several rules share."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Rule:
    """One entry of x-kubernetes-validations.

    `message` is the error, and `expression` is optional CEL for a message that contains values. The
    apiserver falls back to `message` if the expression fails. `field` is the path of the error,
    relative to the rule's position.
    """

    rule: str
    message: str
    expression: str = ""
    field: str = ""
    reason: str = "FieldValueInvalid"

    def manifest(self) -> dict[str, Any]:
        """Return the rule in the form of the CRD."""
        out: dict[str, Any] = {"rule": self.rule, "message": self.message, "reason": self.reason}
        if self.expression:
            out["messageExpression"] = self.expression
        if self.field:
            out["fieldPath"] = self.field
        return out


def task_name(task: str) -> str:
    """Return CEL for a task's name, or for the task's type if it has no name. `task` is CEL as
    well.
    """
    return f"(has({task}.name) && {task}.name != '' ? {task}.name : {task}.type)"


# The name of the task t, for CEL macros over tasks.
NAME_OF_T: Final = task_name("t")
