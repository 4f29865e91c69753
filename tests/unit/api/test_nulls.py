"""C4: metadata that other programs write into a template, and null for values that are not set."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.spec import Spec
from dijob.api.warnings import job_warnings
from dijob.client.documents import check
from dijob.crd import crd_schema
from dijob.crd.schema import schema_at
from samples.builders import container, job_body, manifest
from samples.specs import rejection

Body = dict[str, Any]

WRITTEN_BY_PROGRAMS: Body = {
    "creationTimestamp": None,
    "deletionTimestamp": None,
    "generation": 3,
    "managedFields": [{"manager": "kubectl"}],
    "resourceVersion": "7",
    "selfLink": "/a",
    "uid": "0-0",
    "ownerReferences": None,
    "finalizers": None,
}


def having(metadata: Any, **spec: Any) -> Body:
    made = job_body(**spec)
    made["spec"]["template"]["metadata"] = metadata
    return made


def test_metadata_that_programs_write_is_accepted_without_a_warning() -> None:
    assert job_warnings(parse_job(having(WRITTEN_BY_PROGRAMS))) == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "trainer"),
        ("generateName", "trainer-"),
        ("namespace", "other"),
        ("finalizers", ["example.org/mine"]),
        ("ownerReferences", [{"kind": "Pod", "name": "a"}]),
    ],
)
def test_a_value_without_an_effect_is_accepted_with_a_warning(field: str, value: Any) -> None:
    job = parse_job(having({field: value}))
    (found,) = job_warnings(job)
    assert found.field == f"spec.template.metadata.{field}"
    meta = manifest(job)["metadata"]
    assert (meta["name"], meta["namespace"]) == ("job-0", "ns")
    assert "finalizers" not in meta
    assert [owner["kind"] for owner in meta["ownerReferences"]] == ["DIJob"]


def test_a_misspelled_field_of_metadata_is_still_rejected() -> None:
    ((field, message),) = rejection(having({"lables": {"a": "b"}}))
    assert field == "spec.template.metadata.lables"
    assert "did you mean labels?" in message


def test_a_null_label_is_an_empty_one_as_in_a_deployment() -> None:
    given = {"labels": {"a": "b", "team": None}, "annotations": {"x": None}}
    meta = manifest(parse_job(having(given)))["metadata"]
    assert (meta["labels"]["a"], meta["labels"]["team"], meta["annotations"]["x"]) == ("b", "", "")


@pytest.mark.parametrize("given", [None, {"labels": None, "annotations": None}])
def test_null_metadata_counts_as_absent(given: Body | None) -> None:
    assert manifest(parse_job(having(given))) == manifest(parse_job(job_body()))


def test_each_field_of_a_spec_may_be_null() -> None:
    plain, aliases = job_body(), [str(one.alias) for one in Spec.model_fields.values()]
    nulls = {alias: None for alias in aliases if alias not in plain["spec"]}
    assert len(nulls) > 20
    made = parse_job({**plain, "spec": {**plain["spec"], **nulls}})
    assert made == parse_job(plain)
    assert made.fingerprint == parse_job(plain).fingerprint
    assert made.spec.model_fields_set == parse_job(plain).spec.model_fields_set


@pytest.mark.parametrize(
    "field", ["messageQueue", "restart", "failurePolicy", "networkPolicy", "engineFields"]
)
def test_nested_fields_may_be_null_too(field: str) -> None:
    fields = schema_at(crd_schema(), f"spec.{field}")["properties"]
    made = parse_job(job_body(**{field: dict.fromkeys(fields)}))
    assert made == parse_job(job_body(**{field: {}}))


@pytest.mark.parametrize(
    "field", ["args", "env", "envFrom", "volumeMounts", "resources", "ports", "securityContext"]
)
def test_a_null_field_of_a_container_counts_as_absent(field: str) -> None:
    main = {**container(), field: None}
    made = manifest(parse_job(job_body({"containers": [main]})))
    assert made["spec"]["containers"][0]["name"] == "di-container"


@pytest.mark.parametrize(
    "field", ["initContainers", "volumes", "restartPolicy", "hostNetwork", "hostname", "subdomain"]
)
def test_a_null_field_of_a_pod_counts_as_absent(field: str) -> None:
    pod = {"containers": [container()]}
    null = manifest(parse_job(job_body({**pod, field: None})))["spec"]
    assert {**null, field: null.get(field) or None} == {
        **(plain := manifest(parse_job(job_body(pod)))["spec"]),
        field: plain.get(field),
    }


def test_a_file_that_kubectl_has_printed_can_be_applied() -> None:
    """As `kubectl create --dry-run=client -o yaml` writes it."""
    body = {**job_body(), "status": {}}
    body["metadata"] |= {"creationTimestamp": None, "labels": None, "annotations": {"a": None}}
    assert check(body) == ()


def test_every_optional_field_is_nullable_in_the_schema() -> None:
    """A server-side apply keeps a null, so the schema must allow it. `replicas` is the exception,
    because the scale subresource reads it.
    """

    def strict(node: Body, path: str) -> list[str]:
        found = []
        for name, field in node.get("properties", {}).items():
            free = name in (*node.get("required", ()), "replicas") or "default" in field
            found += [f"{path}.{name}"] if not free and not field.get("nullable") else []
            found += strict(field, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            if isinstance(node.get(key), dict):
                found += strict(node[key], f"{path}[]")
        return found

    spec = schema_at(crd_schema(), "spec")
    assert strict(spec, "spec") == []
