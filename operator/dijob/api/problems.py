"""Problems in a DIJob, as messages for its author: the field, what is wrong, what to do.

pydantic's own messages name Python types and do not say what to do, so they are rewritten here.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from dijob import __version__

# Longer values are not compared in full, because the comparison takes quadratic time.
MOST_COMPARED: Final = 40
# The maximum number of problems that are reported for one object. A condition's message
# may not have room for all of them.
MOST_PROBLEMS: Final = 20


# At these paths the CRD keeps unknown fields (crd/schema.py), including typos. So an unknown field
# at such a path does not mean that the CRD is newer than the operator.
OPEN: Final = ("spec.networkPolicy.ingress[",)
# Pod fields that beginners write into the job's spec instead of into its template.
_OF_PODS: Final = ("containers", "initContainers", "nodeSelector", "tolerations", "restartPolicy")
CRD_IS_NEWER: Final = (
    f"this operator ({__version__}) does not know the field, because the CRD in the cluster is"
    " newer than the operator: upgrade the operator, or remove the field"
)


@dataclass(frozen=True)
class Problem:
    """One problem: the path of the field, and a message that does not repeat the path."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class SpecError(ValueError):
    """The spec of a DIJob is invalid. `problems` are in the order of the fields."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


def from_validation(
    error: ValidationError, model: type[BaseModel], *, served: bool = False
) -> tuple[Problem, ...]:
    """Convert pydantic's errors about an object of this model into problems.

    `served` says whether the object comes from the apiserver. If it does, the CRD in the cluster
    knows all fields of the object. So a field that `model` does not know shows that the CRD is
    newer.
    """
    root = {"Spec": "spec", "Metadata": "metadata"}.get(error.title, "")
    details, found = error.errors(include_url=False), []
    above = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    # pydantic does not count invalid items, so a list that has only invalid items is also reported
    # as too short. That message would confuse the user.
    true = [one for one in details if one["type"] != "too_short" or one["loc"] not in above]
    for detail in true[:MOST_PROBLEMS]:
        path = _field_path([root, *detail["loc"]] if root else detail["loc"])
        newer = served and detail["type"] == "extra_forbidden" and not path.startswith(OPEN)
        sentence = CRD_IS_NEWER if newer else _describe_error(detail["type"], path, detail, model)
        found.append(Problem(path, sentence))
    return tuple(found)


def _field_path(loc: Sequence[int | str]) -> str:
    path = ""
    for part in loc:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _known_fields(model: type[BaseModel], path: str) -> tuple[str, ...]:
    """Return the names of the fields that the object at a path can have."""
    for part in re.sub(r"\[\d+\]", "", path).split("."):
        field = next((f for f in model.model_fields.values() if f.alias == part), None)
        below = list(_models_in(field.annotation)) if field else []
        if not below:
            return ()
        model = below[0]
    return tuple(str(field.alias) for field in model.model_fields.values())


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type such as `tuple[Task, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _suggest_value(value: object, expected: str) -> str:
    """Return a question that suggests one of the expected values, or "" if none is similar.

    In `expected`, each value is in single quotes.
    """
    known = {one.lower(): one for one in re.findall(r"'([^']*)'", expected)}
    near = get_close_matches(str(value).lower()[:MOST_COMPARED], known, n=1)
    return f"did you mean {known[near[0]]!r}? " if near else ""


def _describe_error(kind: str, path: str, detail: Any, model: type[BaseModel]) -> str:
    value = detail.get("input")
    if kind == "extra_forbidden":
        parent, _, name = path.rpartition(".")
        known = _known_fields(model, parent)
        if close := get_close_matches(name, known, n=1):
            return f"there is no such field; did you mean {close[0]}?"
        if parent == "spec" and name in _OF_PODS:
            return f"there is no such field; did you mean spec.template.spec.{name}?"
        return f"there is no such field; known fields: {', '.join(known)}"
    if kind == "missing":
        return "is required but missing; add it"
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = detail["ctx"].get("ge", detail["ctx"].get("le"))
        side = "at least" if kind == "greater_than_equal" else "at most"
        return f"is {value}; it must be {side} {bound}"
    if kind == "no_value":
        return str(detail["msg"])
    if kind == "enum":
        expected = str(detail["ctx"]["expected"])
        return f"is {value!r}; {_suggest_value(value, expected)}it must be one of {expected}"
    return f"is {value!r}; {detail['msg'][:1].lower()}{detail['msg'][1:]}"
