"""Each field of the spec says when it can be changed, and all that depends on it follows."""

import warnings

import pytest
from dijob.api.fingerprint import fingerprint
from dijob.api.spec import Spec
from dijob.api.traits import Immutable, Mutable, traits
from dijob.crd import schema
from dijob.crd.rules import RULES
from dijob.crd.schema import at
from unit.builders import job

SCHEMA = schema()
# The fields that are not immutable in part.
WHOLE = {name for name, trait in traits(Spec, Immutable).items() if not trait.in_part}


def test_each_field_of_the_spec_says_once_when_it_can_be_changed() -> None:
    kinds = Immutable | Mutable
    for name, field in Spec.model_fields.items():
        said = [mark for mark in field.metadata if isinstance(mark, kinds)]
        assert len(said) == 1, f"{name}: {said}"


def test_tasks_alone_have_rules_of_their_own() -> None:
    """tests/unit/test_tasks.py and tests/apiserver/rows_tasks.py are about these."""
    assert traits(Spec, Immutable).keys() - WHOLE == {"tasks"}


@pytest.mark.parametrize("name", sorted(set(Spec.model_fields) - {"tasks"}))
def test_rule_reference_and_fingerprint_of_a_field_follow_from_its_trait(name: str) -> None:
    alias, spec = str(Spec.model_fields[name].alias), job().spec
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic's, about a value of another type
        edited = fingerprint(spec.model_copy(update={name: "another value"}))
    description = at(SCHEMA, f"spec.{alias}")["description"]
    found = (
        any(rule.message.startswith(f"{alias} cannot be changed") for rule in RULES[""]),
        description.endswith(". Can be changed only while suspended."),
        edited != fingerprint(spec),
    )
    assert found == (name in WHOLE,) * 3
