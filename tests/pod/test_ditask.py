"""The launcher's ditask passes the job's options to the image's ditask. The user's options take
precedence. Its rules are tested in the launcher's ditask/ditask_test.go.
"""

from pathlib import Path

import pytest
from pod.boxes import ALONE, JOB, WITHOUT_PROC, WORLD, Box, arguments, told

NASTY = ["--package", "two words", "-m", "", "'", '"', "a\nb", "$HOME", "*", "\\", "-p=x"]


def test_it_works_if_proc_cannot_be_read(box: Box, image: Path) -> None:
    assert box.run([*WITHOUT_PROC, box.ditask, "--version"]) == (0, "--version\0", "")


def test_the_exit_code_and_stdin_are_the_images(box: Box, image: Path) -> None:
    image.write_text(f"#!{box.path}/python/python3\nimport sys\nsys.exit(len(sys.stdin.read()))\n")
    box.shows("1", JOB["DI_NODES"])
    assert box.run([box.launch, "ditask"], stdin="abcde", **JOB | {"DI_RANK": "2"})[0] == 5


def test_every_shell_finds_it_and_hands_its_arguments_on(
    box: Box, image: Path, shell: list[str]
) -> None:
    box.shows("1", JOB["DI_NODES"])
    command = [box.launch, *shell, "-c", 'ditask "$@"; exit 5', "sh", *NASTY]
    rc, out, err = box.run(command, **JOB)
    assert (rc, arguments(out), err) == (5, [*WORLD, *ALONE, *NASTY], "")


# --- torchrpc
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def runtime(box: Box, image: Path) -> Path:
    """An image whose ditask is a Python script, with dijob_runtime. The module `ditask` prints its
    arguments.
    """
    image.write_text(f"#!{box.path}/python/python3\nraise SystemExit('not this one')\n")
    package = box.path / "site" / "dijob_runtime"
    (package / "torchrpc").mkdir(parents=True)
    for name in ("", "torchrpc/"):
        (package / f"{name}__init__.py").touch()
    for name in ("ding", "torch"):
        (package.parent / f"{name}.py").touch()
    (package / "ditask.py").write_text("import sys\nfor a in sys.argv[1:]: print(a, end='\\0')\n")
    box.env["PYTHONPATH"] = str(package.parent)
    return package


def test_torchrpc_goes_by_dijob_runtime_under_the_images_python(box: Box, runtime: Path) -> None:
    args = ["--mq_type", "torchrpc:cpu"]
    env = JOB | {"DI_NODE_IDS": "0", "DIJOB_REACH_SECONDS": "0"}
    assert told(box, args, **env) == ([*WORLD, *ALONE, *args], "")
