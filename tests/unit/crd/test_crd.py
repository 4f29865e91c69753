"""The generated CRD is structural, bounded and described. `make check` compares it with the
committed file.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from dijob import names
from dijob.api import checks
from dijob.api import template_checks as template
from dijob.api.reported import Reported
from dijob.api.spec import Spec
from dijob.api.status import Status
from dijob.crd import crd_manifest, crd_schema
from dijob.crd.__main__ import chart_template
from dijob.crd.rules import RULES
from dijob.crd.schema import schema_at
from dijob.crd.transitions import ENDED

ROOT = Path(__file__).parents[3]
CRD = (ROOT / "crds/dijob.yaml").read_text()
CHART = (ROOT / "charts/dijob/templates/crd.yaml").read_text()
SCHEMA = crd_schema()
Node = dict[str, Any]


def nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, field in node.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}[{key}]")


ALL = dict(nodes(SCHEMA))


def test_the_crd_fits_into_the_annotation_of_kubectl_apply() -> None:
    # It keeps a copy of the CRD in an annotation, and all annotations together may be at most 256
    # KiB.
    assert len(CRD.encode()) < 150_000


def test_every_node_is_structural() -> None:
    allowed = {
        "type",
        "description",
        "enum",
        "default",
        "minimum",
        "maximum",
        "maxLength",
        "maxItems",
        "maxProperties",
        "minLength",
        "minItems",
        "required",
        "nullable",
        "properties",
        "items",
        "additionalProperties",
        "x-kubernetes-validations",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
    }
    assert {path: set(node) - allowed for path, node in ALL.items() if set(node) - allowed} == {}
    assert [path for path, node in ALL.items() if "type" not in node] == []


def test_every_node_is_bounded() -> None:
    def unbounded(node: Node) -> bool:
        bounds = {"integer": "maximum", "array": "maxItems", "string": "maxLength"}
        kind = bounds.get(node["type"])
        needs = "maxProperties" if "additionalProperties" in node else kind
        return needs is not None and needs not in node and "enum" not in node

    free = {".apiVersion", ".kind", ".metadata.name"}  # bounded by Kubernetes itself
    assert [path for path, node in ALL.items() if unbounded(node) and path not in free] == []


def test_every_field_has_a_description() -> None:
    silent = [
        path for path, node in ALL.items() if not node.get("description") and "[add" not in path
    ]
    assert silent == [".metadata"], "Kubernetes forbids a description there"


def test_every_field_of_the_model_is_in_the_schema() -> None:
    for models, path in (((Spec,), "spec"), ((Status, Reported), "status")):
        fields = [field for model in models for field in model.model_fields.values()]
        aliases = [str(field.alias) for field in fields]
        assert sorted(schema_at(SCHEMA, path)["properties"]) == sorted(aliases)


def test_fields_whose_absence_has_a_meaning_have_no_default() -> None:
    defaults = {path: node["default"] for path, node in ALL.items() if "default" in node}
    assert defaults == {
        ".spec.addressing": "IP",
        ".spec.service": "Auto",
        ".spec.runtime": "ditask",
        ".spec.launcher": "Auto",
        ".spec.cleanPodPolicy": "Running",
        ".spec.backoffLimit": 3,
        ".spec.priority": "normal",
        ".spec.messageQueue.type": "nng",
        ".spec.scheduling.topology.mode": "Required",
        ".spec.tasks[items].replicas": 1,
        ".status": {"observedGeneration": -1},
        ".status.restarts": 0,
        ".status.readyReplicas": 0,
    }


def test_scale_and_printer_columns_refer_to_existing_fields() -> None:
    version = crd_manifest()["spec"]["versions"][0]
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    paths += version["subresources"]["scale"].values()
    known = {path for path in paths if re.sub(r"\[\?.*\]", "[items]", path) in ALL}
    assert set(paths) - known == {".metadata.creationTimestamp"}


def test_each_rule_refers_to_an_existing_field_and_has_a_message() -> None:
    made = SCHEMA
    for path, rules in RULES.items():
        for rule in rules:
            schema_at(
                schema_at(made, path), rule.field.removeprefix(".")
            )  # raises if there is no such field
            assert rule.message[0] not in " :", rule
            assert len(rule.message) < 400, rule


def test_an_ended_job_is_immutable_except_for_fields_that_still_have_an_effect() -> None:
    (rule,) = [rule for rule in RULES[""] if "has ended" in rule.message]
    fields = {str(field.alias) for field in Spec.model_fields.values()}
    held = {name for name in fields if f"self.spec.{name} == oldSelf.spec.{name}" in rule.rule}
    assert fields - held == {"ttlSecondsAfterFinished", "cleanPodPolicy", "replicas"}


@pytest.mark.parametrize(
    "value", ["spec.template", "spec.volumes", "spec.tasks.map(t, t.template)"]
)
def test_parts_with_any_content_are_compared_in_both_directions(value: str) -> None:
    # The apiserver skips an undeclared field on the left that the right does not have.
    both = f"(self.{value} == oldSelf.{value} && oldSelf.{value} == self.{value} || "
    (rule,) = [
        rule
        for rule in RULES[""]
        if f"self.{value} ==" in rule.rule and "has ended" not in rule.message
    ]
    assert both in rule.rule
    assert "TemplateChanged" in rule.rule  # the user can revert a change that was accepted


def test_all_transition_rules_are_at_the_root_where_they_see_the_phase() -> None:
    blind = [
        (path, rule.message)
        for path, rules in RULES.items()
        for rule in rules
        if "oldSelf" in rule.rule and path
    ]
    unaware = [
        rule.message for rule in RULES[""] if "oldSelf" in rule.rule and ENDED not in rule.rule
    ]
    assert (blind, unaware) == ([], [])


def test_the_crd_and_the_operator_have_the_same_validation_messages() -> None:
    messages = [rule.message for rules in RULES.values() for rule in rules]
    for sentence in (
        template.SLIP_MESSAGE,
        checks.NO_SIZE_MESSAGE,
        template.PREFIX_MESSAGE,
        template.RESTART_MESSAGE,
    ):
        assert any(sentence in message for message in messages)
    env = RULES["spec.template.spec.containers[].env[]"][0]
    assert [name for name in names.RESERVED_ENV if f"'{name}'" not in env.rule] == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"replicas": 0}, "less than the minimum", id="zero"),
        pytest.param({"replicas": 100000}, "greater than the maximum", id="far too many"),
        pytest.param({"runtime": "ring"}, "is not one of", id="no such runtime"),
        pytest.param({"backoffLimit": 1001}, "greater than the maximum", id="backoffLimit"),
        pytest.param(
            {"template": {"spec": {"containers": [{"image": "x"}]}}},
            "'name' is a required",
            id="no name",
        ),
    ],
)
def test_the_schema_rejects_values_out_of_bounds(spec: Node, words: str) -> None:
    base = {"replicas": 1, "template": {"spec": {"containers": [{"name": "a"}]}}}
    validator = jsonschema.Draft7Validator(SCHEMA)
    assert list(validator.iter_errors({"spec": base})) == []
    (error,) = validator.iter_errors({"spec": {**base, **spec}})
    assert words in error.message


def test_the_charts_template_renders_the_same_crd() -> None:
    lines = CHART.splitlines()
    assert (lines[0], lines[-1]) == ("{{- if .Values.crds.install }}", "{{- end }}")
    kept = yaml.load("\n".join(line for line in lines if "{{" not in line), yaml.CSafeLoader)
    assert kept["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert kept == yaml.load(CRD, yaml.CSafeLoader)


def test_a_crd_with_helms_delimiters_raises_an_error() -> None:
    with pytest.raises(ValueError, match="Helm"):
        chart_template("metadata:\n  name: x\nspec:\n  a: '{{ x }}'\n")
