"""Jobs that are made to break the operator, on a real apiserver: it serves the others."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver.plane import Body, Plane, changed, job, operator
from planes import control_plane
from workers import own

pytestmark = pytest.mark.apiserver

# The depth that the apiserver of 1.34 admits; Go's decoder stops at 10,000.
DEPTH = 950


def nested(depth: int) -> Body:
    made: Body = {"a": 1}
    for _ in range(depth):
        made = {"a": made}
    return made


def with_script(name: str, script: str) -> Body:
    return changed(job(name), "spec.template.spec.containers.0.args", [script])


def with_resources(name: str, resources: Body) -> Body:
    return changed(job(name), "spec.template.spec.containers.0.resources", resources)


POISON: dict[str, tuple[Body, tuple[str, ...]]] = {
    "deep": (
        changed(job("deep"), "spec.template.spec.x", nested(DEPTH)),
        ("spec.template.spec.x.a", "100 levels"),
    ),
    "less-deep": (changed(job("less-deep"), "spec.template.spec.x", nested(150)), ("100 levels",)),
    "wide": (
        changed(job("wide"), "spec.template.spec.x", [[] for _ in range(30_000)]),
        ("spec", "10,000 values"),
    ),
}
HARMLESS = {
    "script": with_script("script", "$(" * 60_000),
    "wrappers": with_script("wrappers", "env " * 4_000),
}
# The apiserver rejects pods with these values.
ODD = {"gpus": with_resources("gpus", {"limits": {"nvidia.com/gpu": "²"}})}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Yield a control plane without an operator."""
    log = tmp_path_factory.mktemp("operator") / "log"
    with control_plane(own("poison-tests"), nodes=3) as cluster:
        yield Plane(cluster, log)


@pytest.fixture(autouse=True)
def deep_reader() -> Iterator[None]:
    """Raise the recursion limit: this test itself parses the deep documents."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * DEPTH)
    yield
    sys.setrecursionlimit(before)


def create(plane: Plane, folder: Path, body: Body) -> None:
    """Create a job with `kubectl create --raw`: kubectl's own decoders are not under test."""
    file = folder / f"{body['metadata']['name']}.json"
    file.write_text(json.dumps(body))
    path = "/apis/diengine.opendilab.org/v2alpha1/namespaces/default/dijobs"
    plane.kubectl("create", "--raw", path, "-f", str(file))


def serves(plane: Plane, name: str) -> None:
    plane.apply(job(name))
    plane.until_condition(name, "Running", "True", seconds=60)


def test_no_job_ends_the_operator_or_hides_another(bare: Plane, tmp_path: Path) -> None:
    bodies = [body for body, _ in POISON.values()]
    with operator(bare.cluster.kubeconfig, bare.log) as process:
        serves(bare, "before")
        # In events of a watch.
        for body in (*bodies, *HARMLESS.values(), *ODD.values()):
            create(bare, tmp_path, body)
        serves(bare, "beside")
        for name, (_, words) in POISON.items():
            bare.until_condition(name, "Invalid", "True", "SpecInvalid", *words)
            assert bare.pods(name) == {}
        for name in HARMLESS:
            bare.until_condition(name, "PodsCreated", "True")
        bare.until_condition("script", "SpecWarning", "True", "16 KiB")
        bare.until_condition("gpus", "PodsCreated", "False", "PodRejected")
        assert process.poll() is None
    # In a list, which is one document.
    with operator(bare.cluster.kubeconfig, bare.log) as process:
        serves(bare, "after")
        bare.kubectl("patch", "dijob", "before", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        bare.until_condition("before", "Suspended", "True")
        assert process.poll() is None
    said = bare.log.read_text()
    assert "RecursionError" not in said
    assert "is quarantined" not in said
