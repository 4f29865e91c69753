"""One CEL rule of the CRD, and the CEL that several have in common."""

from dataclasses import dataclass
from typing import Any, Final


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


def task_name(task: str) -> str:
    """CEL: the name of a task (itself CEL), else its type."""
    return f"(has({task}.name) && {task}.name != '' ? {task}.name : {task}.type)"


# In a macro over tasks whose variable is t.
NAME_OF_T: Final = task_name("t")
