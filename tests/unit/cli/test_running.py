"""`run`: the objects that it creates from a command line and a folder."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from dijob.cli.main import group
from dijob.cli.running.code import MOST_BYTES, CodeFile, read_code

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


def test_too_much_code_is_rejected_with_alternatives(folder: Path) -> None:
    (folder / "weights.pth").write_bytes(b"\xff" * (MOST_BYTES + 1))
    result = run("--code", str(folder), "--", "x")
    assert result.exit_code == 2
    for words in ("do not fit into a ConfigMap (1 MiB", "weights.pth (1008 KiB)", "build an image"):
        assert words in result.stderr
    assert len(read_code(str(folder / "main.py")).files) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--code", "/no/such", "--", "x"), "--code /no/such: no such file", id="code"),
        pytest.param(("--env", "A", "--", "x"), "--env A is invalid: write NAME=VALUE", id="env"),
        pytest.param(("--volume", "a:b", "--", "x"), "is invalid: write CLAIM:/PATH", id="volume"),
        pytest.param(("--mq", "kafka", "--", "x"), "spec.messageQueue.type: is 'kafka'", id="mq"),
        pytest.param(("--env", "DI_RANK=1", "--", "x"), "DI_RANK", id="a reserved variable"),
        pytest.param(
            ("--memory", "4GB", "--", "x"),
            "--memory 4GB is not a Kubernetes quantity, a number with Ki, Mi, Gi, k, M or G:"
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
