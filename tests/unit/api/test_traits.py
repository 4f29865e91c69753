"""Each field of the spec has a trait for changes, and rules, descriptions and fingerprint follow
it."""

import warnings

import pytest
from dijob.api.model import spec_fingerprint
from dijob.api.spec import Spec
from dijob.api.traits import Fixed, Immutable, Mutable, traits_by_field
from dijob.crd import crd_schema
from dijob.crd.rules import RULES
from dijob.crd.schema import schema_at
from samples.builders import job

SCHEMA = crd_schema()
# The fields that are not immutable in part.
WHOLE = {name for name, trait in traits_by_field(Spec, Immutable).items() if not trait.in_part}


def test_each_field_of_the_spec_has_exactly_one_trait_for_changes() -> None:
    kinds = Fixed | Immutable | Mutable
    for name, field in Spec.model_fields.items():
        marks = [mark for mark in field.metadata if isinstance(mark, kinds)]
        assert len(marks) == 1, f"{name}: {marks}"


def test_a_fixed_field_has_a_rule_without_an_exception_for_suspended_jobs() -> None:
    assert traits_by_field(Spec, Fixed).keys() == {"managed_by"}
    (rule,) = (rule for rule in RULES[""] if rule.field == ".spec.managedBy")
    assert "suspend" not in rule.rule
    assert schema_at(SCHEMA, "spec.managedBy")["description"].endswith(". Can never be changed.")


def test_only_tasks_are_immutable_in_part() -> None:
    """The rules of tasks are tested in tests/unit/core/test_tasks.py and
    tests/apiserver/rows_tasks.py.
    """
    assert traits_by_field(Spec, Immutable).keys() - WHOLE == {"tasks"}


@pytest.mark.parametrize("name", sorted(set(Spec.model_fields) - {"tasks", "managed_by"}))
def test_rule_description_and_fingerprint_of_a_field_follow_from_its_trait(name: str) -> None:
    alias, spec = str(Spec.model_fields[name].alias), job().spec
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's, about a value of another type
        edited = spec_fingerprint(spec.model_copy(update={name: "another value"}))
    description = schema_at(SCHEMA, f"spec.{alias}")["description"]
    found = (
        any(rule.message.startswith(f"{alias} cannot be changed") for rule in RULES[""]),
        description.endswith(". Can be changed only while the job is suspended."),
        edited != spec_fingerprint(spec),
    )
    assert found == (name in WHOLE,) * 3
