"""Files of users: reading, validation, and the messages about invalid files."""

from pathlib import Path

import pytest
import yaml
from dijob.client import BadFile, build, check, dump, load, load_job, loads, manifest
from manifests import dijob

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
JOB = dijob("test", {"image": "x", "command": ["ditask", "-m", "a.main"]}, replicas=2)
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {day: 2026-11-01}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            LAUGHS, ("line ", "aliases", "make the document smaller"), id="a billion laughs"
        ),
        pytest.param("a: &a [*a]", ("line 1", "an alias of itself"), id="an alias of itself"),
        pytest.param("a: {b: 1", ("invalid YAML", "line 1"), id="no YAML"),
        pytest.param("a: " + "[" * 3000, ("nested too deeply",), id="deep"),
        pytest.param("kind: A\nkind: B", ("line 2", "duplicate key kind"), id="a duplicate key"),
        pytest.param("hello", ("not a Kubernetes object",), id="a word"),
        pytest.param("{kind: DIJob, apiVersion: v1}", ("metadata.name",), id="no name"),
        pytest.param("{kind: A, metadata: {name: b}}", ("A b has no apiVersion",), id="no version"),
        pytest.param(
            "!!python/object:os.system {}", ("invalid YAML", "constructor"), id="a Python tag"
        ),
    ],
)
def test_an_invalid_file_is_reported_in_one_sentence(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(BadFile) as caught:
        tuple(loads(text, "job.yaml"))
    said = str(caught.value)
    assert said.startswith("job.yaml: ")
    assert "\n" not in said
    for word in words:
        assert word in said


def test_a_file_can_have_several_documents_and_lists(tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [JOB, *loads(MAP)]}
    file = tmp_path / "all.yaml"
    file.write_text(f"---\n{MAP}---\n---\n{yaml.safe_dump(listed)}")
    assert [body["kind"] for body in load(file)] == ["ConfigMap", "DIJob", "ConfigMap"]
    assert load(file)[0]["data"] == {"day": "2026-11-01"}
    assert load_job(file).metadata.name == "test"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param(None, "no such file or directory", id="absent"),
        pytest.param(b"\xff\xfe\x00", "not valid UTF-8 text", id="binary"),
        pytest.param(b"# nothing", "no objects found", id="empty"),
    ],
)
def test_a_file_without_objects_is_rejected(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "job.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadFile, match=words):
        load(file)


def test_a_job_is_checked_as_in_the_operator() -> None:
    wrong = dijob("test", {"image": "x", "command": ["x"]}, replicas=0, topologie="mesh")
    with pytest.raises(BadFile) as caught:
        check(wrong, "job.yaml")
    said = str(caught.value)
    assert said.startswith("job.yaml: DIJob test: spec.")
    assert "did you mean topology?" in said
    assert "spec.replicas: is 0; it must be at least 1" in said
    with pytest.raises(BadFile, match=r"set it to diengine.opendilab.org/v2alpha1"):
        check({**JOB, "apiVersion": "diengine.opendilab.org/v1"})


@pytest.mark.parametrize(
    ("kind", "version", "rejected"),
    [
        ("Dijob", "diengine.opendilab.org/v2alpha1", True),
        ("dijob", "v1", True),
        ("dijobs", "", True),
        ("DIJobs", "diengine.opendilab.org/v2alpha1", True),
        ("DJob", "diengine.opendilab.org/v2alpha1", True),
        ("DJob", "example.com/v1", False),
        ("AggregatorConfig", "diengine.opendilab.org/v1alpha2", False),
        ("Job", "batch/v1", False),
    ],
)
def test_a_misspelled_kind_is_rejected(kind: str, version: str, rejected: bool) -> None:
    text = f"{{kind: {kind}, apiVersion: '{version}', metadata: {{name: x}}}}"
    if not rejected:
        assert [body["kind"] for body in loads(text, "job.yaml")] == [kind]
        return
    with pytest.raises(BadFile, match=f"job.yaml: there is no kind {kind}: did you mean DIJob?"):
        tuple(loads(text, "job.yaml"))


def test_warnings_are_not_errors() -> None:
    found = check(dijob("test", {"image": "x", "command": ["ditask"]}, launcher="Off", replicas=2))
    assert [warning.field for warning in found] == ["spec.launcher"]


def test_nulls_in_a_spec_are_not_sent() -> None:
    """C4: `replicas: null` is the only null that server-side apply rejects."""
    nulls = {**JOB["spec"], "replicas": None, "suspend": None, "minReplicas": 1}
    sent = manifest({**JOB, "spec": nulls})["spec"]
    assert sent == {
        **{k: v for k, v in JOB["spec"].items() if k != "replicas"},
        "minReplicas": 1,
    }


def test_a_job_is_written_as_it_was_built() -> None:
    job = build("test", JOB["spec"])
    assert manifest(job) == JOB
    assert tuple(loads(dump(job))) == (JOB,)


def test_multi_line_text_stays_readable_in_yaml() -> None:
    assert "main.py: |-\n" in dump({"data": {"main.py": "import os\nprint(os)"}})


def test_a_typo_in_a_file_that_was_saved_from_the_cluster_is_reported_as_a_typo(
    tmp_path: Path,
) -> None:
    saved = {**JOB, "metadata": {**JOB["metadata"], "uid": "1", "resourceVersion": "7"}}
    saved["spec"] = {**JOB["spec"], "replica": 2}
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(saved))
    with pytest.raises(BadFile, match="did you mean replicas"):
        load_job(file)
