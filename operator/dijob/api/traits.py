"""Traits of a field: whether it can be changed, and whether the apiserver writes its default.

A trait is part of the field's annotation. The CRD's rules and defaults, the fingerprint of a pod
and docs/reference.md are derived from the traits. So a new field cannot be forgotten in any of
these places.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeVar

from pydantic import BaseModel, Field, JsonValue

# The apiserver writes the field's default into an object that lacks the field. pydantic has no
# attribute for this trait, so the trait is kept in the JSON schema, where crd/schema.py finds it.
_DEFAULTED: Final[dict[str, JsonValue]] = {"defaulted": True}
DEFAULTED: Final = Field(json_schema_extra=_DEFAULTED)


@dataclass(frozen=True)
class Immutable:
    """Marks a field that is used to create the pods. It can be changed only while the job is
    suspended, when no pods exist.

    `why` is part of the error message. A field that is immutable `in_part` has its own rules in
    crd/rules.py, and its docstring says what can be changed. With `default_is_hashed`, the field is
    part of the pods' fingerprint even if it has its default value (model.spec_fingerprint).
    """

    why: str = "the running pods were created with the current value"
    in_part: bool = False
    # True only for fields that existed in the first release. The default of a field that is added
    # later must not be hashed. Otherwise the hash would change, and an upgrade would report all
    # running pods as outdated.
    default_is_hashed: bool = False


@dataclass(frozen=True)
class Fixed:
    """Marks a field that is not used to create pods, and can never be changed. `why` is part of the
    error message.
    """

    why: str


class Mutable(Enum):
    """Marks a field that is not used to create pods, and says how long it stays mutable."""

    UNTIL_ENDED = auto()
    # ALWAYS is for fields that the operator still reads after the job has ended, or that
    # autoscalers write at any time.
    ALWAYS = auto()


Trait = TypeVar("Trait", Fixed, Immutable, Mutable)


def traits_by_field(model: type[BaseModel], kind: type[Trait]) -> dict[str, Trait]:
    """Return the traits of one kind, keyed by field name, in the order of the fields."""
    marks = ((name, mark) for name, field in model.model_fields.items() for mark in field.metadata)
    return {name: mark for name, mark in marks if isinstance(mark, kind)}


def defaulted_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the names of a model's fields that are always present, because they are DEFAULTED."""
    fields = model.model_fields.items()
    return frozenset(name for name, field in fields if field.json_schema_extra == _DEFAULTED)
