"""Traits of a field, written beside its type: when it can be changed, and who writes its default.

The CRD's rules and defaults, the fingerprint of a pod and docs/reference.md follow from them.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeVar

from pydantic import BaseModel, Field, JsonValue

# The apiserver writes the field's default into an object that lacks the field.
_DEFAULTED: Final[dict[str, JsonValue]] = {"defaulted": True}
DEFAULTED: Final = Field(json_schema_extra=_DEFAULTED)


@dataclass(frozen=True)
class Immutable:
    """The running pods were made from the field: it can be changed only while the job is suspended.

    `why` is part of the refusal. A field that is immutable `in_part` has rules of its own in
    crd/rules.py, and its docstring says what can be changed. `default_is_hashed`: the field is part
    of the pods' fingerprint even where it has its default (fingerprint.py).
    """

    why: str = "the running pods were created with it"
    in_part: bool = False
    # Only for the first fields: a later one that counted would change the hash of every running
    # pod.
    default_is_hashed: bool = False


class Mutable(Enum):
    """When a field that no running pod was made from can be changed."""

    UNTIL_ENDED = auto()
    ALWAYS = auto()  # the operator reads it even then, or programs write it (autoscalers)


Trait = TypeVar("Trait", Immutable, Mutable)


def traits(model: type[BaseModel], kind: type[Trait]) -> dict[str, Trait]:
    """The fields of a model that have a trait of this kind, by their names, in their order."""
    marks = ((name, mark) for name, field in model.model_fields.items() for mark in field.metadata)
    return {name: mark for name, mark in marks if isinstance(mark, kind)}


def defaulted(model: type[BaseModel]) -> frozenset[str]:
    """The names of a model's fields that the apiserver never leaves absent."""
    fields = model.model_fields.items()
    return frozenset(name for name, field in fields if field.json_schema_extra == _DEFAULTED)
