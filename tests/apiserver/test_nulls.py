"""C4: null fields and metadata in templates, with each way to create a job."""

import json
from typing import Any

import pytest
from apiserver.plane import Body, Plane, changed, job

pytestmark = pytest.mark.apiserver

META = "spec.template.metadata"
MAIN = "spec.template.spec.containers.0"
METADATA: Body = {
    "creationTimestamp": None,
    "name": "trainer",
    "namespace": "default",
    "generateName": "trainer-",
    "finalizers": ["example.org/a"],
    "uid": "0",
    "ownerReferences": None,
    "managedFields": None,
    "labels": {"a": "b", "team": None},
    "annotations": None,
}
NULLS = [
    *(f"spec.{name}" for name in ("suspend", "topology", "parallelWorkers", "messageQueue")),
    *(f"spec.{name}" for name in ("runtime", "priority", "backoffLimit", "group", "volumes")),
    *(f"spec.{name}" for name in ("tasks", "restart", "failurePolicy", "successPolicy")),
    *(f"spec.{name}" for name in ("engineFields", "networkPolicy", "activeDeadlineSeconds")),
    *(f"{MAIN}.{name}" for name in ("args", "env", "resources", "volumeMounts")),
    *(f"spec.template.spec.{name}" for name in ("initContainers", "restartPolicy", "hostname")),
    *(f"{META}.{name}" for name in METADATA),
    META,
]
WAYS = {
    "create": ("create", "-f", "-"),
    "apply": ("apply", "-f", "-"),
    "server-side apply": ("apply", "--server-side", "-f", "-"),
}


def full(name: str) -> Body:
    """Return a job with null in every field that accepts it."""
    made = job(name, replicas=2)
    spec = made["spec"]
    nulls = [path.removeprefix("spec.") for path in NULLS if path.count(".") == 1]
    parts: Body = {"restart": {"scope": None}, "messageQueue": {"host": None, "port": None}}
    made["spec"] = {**dict.fromkeys(nulls), **parts, **spec}
    made["spec"]["template"]["metadata"] = METADATA
    main = made["spec"]["template"]["spec"]["containers"][0]
    main |= {"env": None, "resources": None}
    return made


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_job_full_of_nulls_runs_and_can_be_changed(plane: Plane, way: tuple[str, ...]) -> None:
    name = "nulls"
    plane.kubectl(*way, stdin=json.dumps(full(name)))
    plane.until_condition(name, "Running", "True")
    pods = plane.pods(name)
    assert sorted(pods) == ["nulls-0", "nulls-1"]
    labels: Any = pods["nulls-0"]["metadata"]["labels"]
    assert labels["a"] == "b"
    plane.kubectl("patch", "dijob", name, "--type=merge", "-p", '{"spec": {"backoffLimit": 7}}')
    plane.kubectl("patch", "dijob", name, "--type=merge", "-p", '{"spec": {"topology": null}}')
    plane.remove(f"dijob/{name}")


@pytest.mark.parametrize("path", NULLS)
def test_each_null_is_accepted(plane: Plane, path: str) -> None:
    made = job("nulls", replicas=2)
    if path.startswith(f"{META}."):
        made = changed(made, META, METADATA)
    made = changed(made, path, None)
    for way in WAYS.values():
        said = plane.ask(*way, "--dry-run=server", stdin=json.dumps(made))
        assert said.ok, f"{way}: {said.text}"
