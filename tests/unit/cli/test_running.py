"""`run`: the objects that it makes of a command line and a folder."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from dijob.cli.main import group
from dijob.cli.running.code import MOST_BYTES, File, read

Body = dict[str, Any]


def run(*words: str) -> Result:
    return CliRunner().invoke(group, ("run", "test", "--image", "my/image", *words))


def made(*words: str) -> list[Body]:
    result = run("--dry-run", *words)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Code with a package, a binary file, a script and what nobody means to send."""
    (tmp_path / "pkg/__pycache__").mkdir(parents=True)
    (tmp_path / "main.py").write_text("import pkg\n")
    (tmp_path / "pkg/__init__.py").write_text("")
    (tmp_path / "pkg/data.bin").write_bytes(b"\xff\x00")
    (tmp_path / "pkg/__pycache__/x.pyc").write_bytes(b"\x00")
    (tmp_path / "a file!.sh").write_text("#!/bin/sh\n")
    (tmp_path / "a file!.sh").chmod(0o755)
    return tmp_path


def test_a_command_and_nothing_else() -> None:
    (job,) = made("--", "ditask", "-m", "a.main")
    main = {
        "name": "di-container",
        "image": "my/image",
        "command": ["ditask", "-m", "a.main"],
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
    }
    assert job["spec"] == {"replicas": 1, "template": {"spec": {"containers": [main]}}}


def test_all_options_of_the_job() -> None:
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
    assert main["volumeMounts"] == [{"name": "volume-0", "mountPath": "/out"}]
    assert pod["volumes"] == [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "out"}}]


def test_code_is_in_the_folder_where_the_command_starts(folder: Path) -> None:
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


def test_one_file_is_code_too(folder: Path) -> None:
    job, config_map = made("--code", str(folder / "main.py"), "--", "python", "main.py")
    assert config_map["data"] == {"main.py": "import pkg\n"}
    assert job["spec"]["template"]["spec"]["containers"][0]["workingDir"] == "/work"


def test_keys_are_valid_and_differ() -> None:
    keys = {File(path, b"").key for path in ("a/b.py", "a__b.py", "a b.py", "ä.py", "a/b/c")}
    assert len(keys) == 5
    assert all(key.isascii() and " " not in key and "/" not in key for key in keys)


def test_too_much_code_is_a_sentence_with_the_way_out(folder: Path) -> None:
    (folder / "weights.pth").write_bytes(b"\xff" * (MOST_BYTES + 1))
    result = run("--code", str(folder), "--", "x")
    assert result.exit_code == 2
    for words in ("do not fit into a ConfigMap (1 MiB", "weights.pth (1008 KiB)", "build an image"):
        assert words in result.stderr
    assert len(read(str(folder / "main.py")).files) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--code", "/no/such", "--", "x"), "--code /no/such: no such file", id="code"),
        pytest.param(("--env", "A", "--", "x"), "--env A: write it as NAME=VALUE", id="env"),
        pytest.param(("--volume", "a:b", "--", "x"), "write it as CLAIM:/PATH", id="volume"),
        pytest.param(("--mq", "kafka", "--", "x"), "spec.messageQueue.type: is 'kafka'", id="mq"),
        pytest.param(("--env", "DI_RANK=1", "--", "x"), "DI_RANK", id="a reserved variable"),
    ],
)
def test_wrong_options(words: tuple[str, ...], said: str) -> None:
    result = run("--dry-run", *words)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
