"""`run`: the objects that it creates from a command line and a folder."""

import base64
import io
import random
import tarfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from dijob.cli.main import group
from dijob.client.code import MOST_BYTES, MOST_PARTS, MOST_UNPACKED, CodeFile, read_code
from dijob.client.errors import BadFile
from dijob.client.running import RunOptions, RunRequest, replace_code

Body = dict[str, Any]


def run(*words: str) -> Result:
    return CliRunner().invoke(group, ("run", "test", "--image", "my/image", *words))


def made(*words: str) -> list[Body]:
    result = run("--dry-run", *words)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Code with a package, a binary file, a script and files that are ignored."""
    (tmp_path / "pkg/__pycache__").mkdir(parents=True)
    (tmp_path / "main.py").write_text("import pkg\n")
    (tmp_path / "pkg/__init__.py").write_text("")
    (tmp_path / "pkg/data.bin").write_bytes(b"\xff\x00")
    (tmp_path / "pkg/__pycache__/x.pyc").write_bytes(b"\x00")
    (tmp_path / "a file!.sh").write_text("#!/bin/sh\n")
    (tmp_path / "a file!.sh").chmod(0o755)
    return tmp_path


def test_run_with_only_a_command() -> None:
    (job,) = made("--", "ditask", "-m", "a.main")
    main = {
        "name": "di-container",
        "image": "my/image",
        "command": ["ditask", "-m", "a.main"],
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
    }
    assert job["spec"] == {"replicas": 1, "template": {"spec": {"containers": [main]}}}


def test_run_with_all_options() -> None:
    words = "--replicas 4 --workers 2 --cpu 2 --memory 4Gi --gpus 1 --topology star --mq redis"
    (job,) = made(*words.split(), "--env", "A=b=c", "--volume", "out:/out", "--", "x")
    spec = job["spec"]
    pod = spec.pop("template")["spec"]
    assert spec == {
        "replicas": 4,
        "parallelWorkers": 2,
        "topology": "star",
        "messageQueue": {"type": "redis"},
    }
    (main,) = pod["containers"]
    assert main["resources"] == {
        "requests": {"cpu": "2", "memory": "4Gi"},
        "limits": {"memory": "4Gi", "nvidia.com/gpu": 1},
    }
    assert {"name": "A", "value": "b=c"} in main["env"]
    assert main["volumeMounts"] == [{"name": "out", "mountPath": "/out"}]
    assert pod["volumes"] == [{"name": "out", "persistentVolumeClaim": {"claimName": "out"}}]


def test_run_with_the_options_of_a_schedule() -> None:
    words = "--min-replicas 2 --max-replicas 4 --backoff-limit 0 --ttl 1d --deadline 12h"
    words += " --startup-deadline 90 --label kueue.x-k8s.io/queue-name=rl --node-selector gpu=a"
    words += " --service-account trainer"
    (job,) = made(*words.split(), "--secret", "wandb", "--secret", "ssh:/keys", "--", "x")
    spec = job["spec"]
    pod = spec.pop("template")["spec"]
    assert spec == {
        "minReplicas": 2,
        "maxReplicas": 4,
        "backoffLimit": 0,
        "activeDeadlineSeconds": 43200,
        "startupDeadlineSeconds": 90,
        "ttlSecondsAfterFinished": 86400,
    }
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "rl"}
    assert pod["nodeSelector"] == {"gpu": "a"}
    assert pod["serviceAccountName"] == "trainer"
    (main,) = pod["containers"]
    assert main["envFrom"] == [{"secretRef": {"name": "wandb"}}]
    assert main["volumeMounts"] == [{"name": "ssh", "mountPath": "/keys", "readOnly": True}]
    assert pod["volumes"] == [{"name": "ssh", "secret": {"secretName": "ssh"}}]


def test_the_keyword_arguments_are_the_fields_of_the_request() -> None:
    asked = {one.name for one in fields(RunRequest)} - {"name", "image", "command"}
    assert asked == set(RunOptions.__annotations__)


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        pytest.param(["data", "out"], ["data", "out"], id="the claims' names"),
        pytest.param(["out", "out"], ["out", "out"], id="one claim with two mounts"),
        pytest.param(
            ["my.claim", "b" * 64], ["volume-0", "volume-1"], id="not valid as a volume's name"
        ),
        pytest.param(["code", "work"], ["volume-0", "volume-1"], id="those of the code"),
        pytest.param(["dijob-bin"], ["volume-0"], id="the operator's"),
        pytest.param(["volume-0", "a.b"], ["volume-0", "volume-1"], id="a number that is taken"),
        pytest.param(["a.b", "volume-0"], ["volume-0", "volume-1"], id="a name that is taken"),
    ],
)
def test_a_volume_is_named_after_its_claim_if_possible(claims: list[str], names: list[str]) -> None:
    words = [word for n, one in enumerate(claims) for word in ("--volume", f"{one}:/{n}")]
    (job,) = made(*words, "--", "x")
    pod = job["spec"]["template"]["spec"]
    mounts = pod["containers"][0]["volumeMounts"]
    assert [(one["name"], one["mountPath"]) for one in mounts] == [
        (name, f"/{n}") for n, name in enumerate(names)
    ]
    assert {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"]} == dict(
        zip(names, claims, strict=True)
    )
    assert len(pod["volumes"]) == len(set(names))


def test_an_explicit_shell_gets_its_command_line() -> None:
    (job,) = made("--", "bash", "-c", "echo hi; python3 -V")
    (main,) = job["spec"]["template"]["spec"]["containers"]
    assert main["command"] == ["bash", "-c", "echo hi; python3 -V"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--memory", memory, "--cpu", cpu), id=f"{memory} {cpu}")
        for memory, cpu in (
            ("4Mi", "0"),
            ("4Gi", "500m"),
            ("4G", ".5"),
            ("4e9", "2"),
            ("1.5Gi", "1."),
        )
    ],
)
def test_quantities_are_kept_as_written(words: tuple[str, ...]) -> None:
    (job,) = made(*words, "--", "x")
    (main,) = job["spec"]["template"]["spec"]["containers"]
    assert main["resources"]["requests"] == {"memory": words[1], "cpu": words[3]}


def test_code_is_in_the_working_directory(folder: Path) -> None:
    job, config_map = made("--code", str(folder), "--", "python", "main.py")
    pod = job["spec"]["template"]["spec"]
    (main,) = pod["containers"]
    assert main["workingDir"] == "/work"
    assert [mount["mountPath"] for mount in main["volumeMounts"]] == [
        "/work",
        "/work/a file!.sh",
        "/work/main.py",
        "/work/pkg",
    ]
    source = next(v["configMap"] for v in pod["volumes"] if "configMap" in v)
    assert source["name"] == config_map["metadata"]["name"] == "test-code"
    stored = config_map["data"] | {
        key: base64.b64decode(value) for key, value in config_map["binaryData"].items()
    }
    assert {item["path"]: stored[item["key"]] for item in source["items"]} == {
        "a file!.sh": "#!/bin/sh\n",
        "main.py": "import pkg\n",
        "pkg/__init__.py": "",
        "pkg/data.bin": b"\xff\x00",
    }
    assert [item["path"] for item in source["items"] if item.get("mode") == 0o755] == ["a file!.sh"]


def test_code_can_be_a_single_file(folder: Path) -> None:
    job, config_map = made("--code", str(folder / "main.py"), "--", "python", "main.py")
    assert config_map["data"] == {"main.py": "import pkg\n"}
    assert job["spec"]["template"]["spec"]["containers"][0]["workingDir"] == "/work"


def test_keys_of_the_config_map_are_valid_and_distinct() -> None:
    keys = {CodeFile(path, b"").key for path in ("a/b.py", "a__b.py", "a b.py", "ä.py", "a/b/c")}
    assert len(keys) == 5
    assert all(key.isascii() and " " not in key and "/" not in key for key in keys)


def test_code_that_is_too_large_for_a_config_map_is_an_archive_in_several(folder: Path) -> None:
    weights = random.Random(1).randbytes(3 * MOST_BYTES // 2)
    (folder / "weights.pth").write_bytes(weights)
    job, *config_maps = made("--memory", "1Gi", "--code", str(folder), "--", "python", "main.py")
    assert [one["metadata"]["name"] for one in config_maps] == ["test-code", "test-code-1"]
    pod = job["spec"]["template"]["spec"]
    (main,), (unpacker,) = pod["containers"], pod["initContainers"]
    assert (main["workingDir"], main["volumeMounts"]) == (
        "/work",
        [{"name": "work", "mountPath": "/work"}],
    )
    assert (unpacker["image"], unpacker["resources"]) == (main["image"], main["resources"])
    (source,) = [one["projected"]["sources"] for one in pod["volumes"] if "projected" in one]
    assert [one["configMap"]["name"] for one in source] == ["test-code", "test-code-1"]
    archive = b"".join(base64.b64decode(b) for one in config_maps for b in unpacked(one))
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        assert {one.name: one.mode for one in files} == {
            "a file!.sh": 0o755,
            "main.py": 0o644,
            "pkg/__init__.py": 0o644,
            "pkg/data.bin": 0o644,
            "weights.pth": 0o644,
        }
        found = files.extractfile("weights.pth")
        assert found is not None
        assert found.read() == weights


def unpacked(config_map: Body) -> list[str]:
    return [config_map["binaryData"][key] for key in sorted(config_map["binaryData"])]


def test_the_same_code_gives_the_same_archive(folder: Path) -> None:
    (folder / "data").write_bytes(random.Random(1).randbytes(MOST_BYTES))
    first = read_code(folder).parts
    (folder / "main.py").touch()
    assert read_code(folder).parts == first != ()


@pytest.mark.parametrize(
    ("size", "said"),
    [
        pytest.param(MOST_UNPACKED + 1, "is too large (64 MiB in 5 files)", id="files"),
        pytest.param(MOST_PARTS * 2**20, "more than 16 MiB when compressed", id="archive"),
    ],
)
def test_code_that_is_too_large_names_its_largest_files(folder: Path, size: int, said: str) -> None:
    (folder / "weights.pth").write_bytes(random.Random(1).randbytes(size))
    result = run("--code", str(folder), "--", "x")
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert f"weights.pth ({size / 2**20:.1f} MiB)" in result.stderr
    assert "mount it from a volume" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--code", "/no/such", "--", "x"), "code /no/such: no such file", id="code"),
        pytest.param(("--label", "a", "--", "x"), "is invalid: write KEY=VALUE", id="label"),
        pytest.param(
            ("--secret", "a:b", "--", "x"), "is invalid: write NAME or NAME:/PATH", id="secret"
        ),
        pytest.param((), "--image and a COMMAND are required with --image", id="no command"),
        pytest.param(
            ("--min-replicas", "3", "--max-replicas", "2", "--", "x"), "maxReplicas", id="bounds"
        ),
        pytest.param(("--env", "A", "--", "x"), "--env A is invalid: write NAME=VALUE", id="env"),
        pytest.param(("--volume", "a:b", "--", "x"), "is invalid: write CLAIM:/PATH", id="volume"),
        pytest.param(("--mq", "kafka", "--", "x"), "spec.messageQueue.type: is 'kafka'", id="mq"),
        pytest.param(("--env", "DI_RANK=1", "--", "x"), "DI_RANK", id="a reserved variable"),
        pytest.param(
            ("--memory", "4GB", "--", "x"),
            "--memory 4GB is not a Kubernetes quantity (a number with Ki, Mi, Gi, k, M or G):"
            " write 4G or 4Gi",
            id="GB",
        ),
        pytest.param(("--memory", "500kb", "--", "x"), "write 500k or 500Ki", id="kb"),
        pytest.param(("--memory", "4.5g", "--", "x"), "write 4.5G or 4.5Gi", id="g"),
        pytest.param(("--memory", "much", "--", "x"), "write it as 4Gi or 500M", id="a word"),
        pytest.param(("--memory", "4", "--", "x"), "means 4 bytes: did you mean 4Gi?", id="bytes"),
        pytest.param(("--memory", "4000000", "--", "x"), "write it as 4Gi", id="nearly enough"),
        pytest.param(("--memory", "4096", "--", "x"), "did you mean 4096Mi?", id="more bytes"),
        pytest.param(
            ("--memory", "100m", "--", "x"),
            "means 0.1 bytes: did you mean 100Mi?",
            id="thousandths",
        ),
        pytest.param(
            ("--memory", "4Ki", "--", "x"), "means 4096 bytes: did you mean 4Gi?", id="KiB"
        ),
        pytest.param(("--memory", "0", "--", "x"), "write it as 4Gi or 500Mi", id="no memory"),
        pytest.param(("--cpu", "2x", "--", "x"), "--cpu 2x is not a valid CPU quantity", id="cpu"),
        pytest.param(
            ("--", "echo hi; python3 -V"),
            "'echo hi; python3 -V' is a single argument, and no shell splits it: write"
            " -- bash -c 'echo hi; python3 -V', or omit the quotes",
            id="a line of a shell",
        ),
        pytest.param(("--cpu=-1", "--", "x"), "write 2 or 500m", id="less than no CPU"),
    ],
)
def test_invalid_options_of_run(words: tuple[str, ...], said: str) -> None:
    result = run("--dry-run", *words)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output


def test_new_code_replaces_only_the_code_of_a_job(folder: Path) -> None:
    job, _ = made("--volume", "out:/out", "--code", str(folder), "--", "python", "main.py")
    before = job["spec"]["template"]["spec"]
    (folder / "new.py").write_text("print(2)")
    (folder / "large").write_bytes(random.Random(1).randbytes(MOST_BYTES))
    packed, *parts = replace_code(job, read_code(folder))
    assert len(parts) == 2
    assert packed["spec"]["template"]["spec"]["initContainers"][0]["name"] == "code"
    (folder / "large").unlink()
    plain, config_map = replace_code(packed, read_code(folder))
    assert config_map["data"]["new.py"] == "print(2)"
    after = plain["spec"]["template"]["spec"]
    assert "initContainers" not in after
    (main,), (old,) = after["containers"], before["containers"]
    paths = [one["mountPath"] for one in main["volumeMounts"]]
    assert paths.count("/work/new.py") == paths.count("/out") == 1
    assert (main["command"], main["env"]) == (old["command"], old["env"])
    assert [one["name"] for one in after["volumes"]] == ["work", "code", "out"]


def test_code_is_not_replaced_in_a_job_with_its_own_volume_of_that_name(folder: Path) -> None:
    (job,) = made("--", "x")
    job["spec"]["template"]["spec"]["volumes"] = [{"name": "code", "configMap": {"name": "mine"}}]
    with pytest.raises(BadFile, match="its own volume named code"):
        replace_code(job, read_code(folder))


def test_code_is_not_replaced_in_a_job_with_tasks(folder: Path) -> None:
    (job,) = made("--", "x")
    job["spec"] = {"tasks": [{"name": "a", "template": job["spec"]["template"]}]}
    with pytest.raises(BadFile, match="restart test -f FILE"):
        replace_code(job, read_code(folder))
