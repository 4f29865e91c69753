"""`kubectl dijob local` with real DI-engine: an example trains to its target without a cluster, in
the file system of the ditask image, which has DI-engine and torch."""

import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from unpacked import ROOT, Unpacked, unpacked

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="unpacking and entering an image needs root"),
]

# The dependencies of `pip install dijob[cli]`.
PACKAGES = ("click", "pydantic", "pydantic_core", "annotated_types", "typing_inspection", "yaml")
MODULES = ("typing_extensions",)
MAIN = "import sys; sys.path.insert(0, '/opt/dijob'); from dijob.cli.main import main; main()"


def copy_packages(target: Path) -> None:
    """Copy the dependencies of the command line into a folder, for Debian's Python."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations
        shutil.copytree(spec.submodule_search_locations[0], target / name)
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin
        shutil.copy(spec.origin, target)


def install(target: Path) -> None:
    """Install the command line with its dependencies into a folder, for Debian's Python."""
    copy_packages(target)
    for name in ("dijob", "dijob_extras"):
        shutil.copytree(ROOT / "operator" / name, target / name)
    # As in the wheel (pyproject.toml, entry-points and force-include).
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in table.items())
        for group, table in project["entry-points"].items()
    ]
    info = target / "dijob-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dijob\nVersion: 0\n")
    (info / "entry_points.txt").write_text("\n".join(lines))
    python = target / "dijob_extras/local/python"
    shutil.copytree(ROOT / "images/dijob-runtime/dijob_runtime", python / "dijob_runtime")
    shutil.copy(ROOT / "images/dijob-runtime/hook/sitecustomize.py", python)


@pytest.fixture(scope="module")
def image() -> Iterator[Unpacked]:
    """The unpacked ditask image, with the command line in /opt/dijob."""
    with unpacked("ditask") as found:
        install(found.files / "opt/dijob")
        yield found


def run_example(image: Unpacked, name: str, text: str) -> str:
    """Run a file with `kubectl dijob local`, and return its output after it has succeeded."""
    (image.files / "opt" / name).write_text(text)
    done = image.run(
        *("python3", "-c", MAIN, "local", f"/opt/{name}", "--timeout", "840"),
        only_writable="/tmp /home/ditask",
    )
    shown = f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == 0, shown
    assert done.stderr.endswith("dijob: Succeeded: all ranks have exited 0\n"), shown
    return done.stdout


@pytest.mark.long
def test_cartpole_trains_to_its_target_without_a_cluster(image: Unpacked) -> None:
    text = (ROOT / "examples/cartpole-dqn.yaml").read_text()
    output = run_example(image, "cartpole-dqn.yaml", text)
    returns = re.findall(r"rank 1 \| .*Episode Return\(([\d.]+)\)", output)
    assert max(map(float, returns)) >= 195, output[-3000:]


# Rank 0 alone has reached its limit. The indentation is that of the example's program.
ENDS_ALL_RANKS = """
            from types import SimpleNamespace
            from ding.framework import task
            from ding.framework.middleware import ddp_termination_checker
            steps = SimpleNamespace(env_step=0 if get_rank() else 2, train_iter=0)
            ddp_termination_checker(max_env_step=1, rank=get_rank())(steps)
            print("rank", get_rank(), "ends:", task.finish)
"""


@pytest.mark.long
def test_di_engines_own_ddp_trains_on_two_ranks_without_a_gpu(image: Unpacked) -> None:
    """Item 10: dist_init, LogReduceHook, and the import of a missing DistContext. DI-engine 0.5.3
    fails in each of them.
    """
    text = (ROOT / "examples/cartpole-ddp.yaml").read_text()
    assert text.count('value: ""') == 1
    text = text.replace('value: ""', 'value: "160"').replace("DDPContext", "DistContext")
    output = run_example(image, "cartpole-ddp.yaml", text + ENDS_ALL_RANKS)
    for rank in range(2):
        assert f"rank {rank} | rank {rank} of 2 has trained: True\n" in output
        assert f"rank {rank} | rank {rank} ends: True\n" in output
    assert "=== Training Iteration 0 Result ===" in output


def test_several_ditasks_in_one_container_form_a_league(image: Unpacked) -> None:
    """C5, and a list of ports."""
    output = run_example(image, "league.yaml", (ROOT / "examples/league.yaml").read_text())
    assert "rank 0 | node 0 (league) has heard of nodes [10, 11, 20]\n" in output


def test_the_gpu_checks_can_be_rehearsed_on_a_cpu(image: Unpacked, tmp_path: Path) -> None:
    """The folder of tests/gpu/pack.sh, with installed packages instead of wheels, and one step of
    its run.sh. The other steps take minutes.
    """
    packages = tmp_path / "packages"
    packages.mkdir()
    copy_packages(packages)
    folder = image.files / "opt/gpu"
    pack = [str(ROOT / "tests/gpu/pack.sh"), "--packages", str(packages), str(folder)]
    packed = subprocess.run(pack, check=True, capture_output=True, text=True)
    assert re.search(r"==> .*/opt/gpu: \d+ MB\n$", packed.stdout)
    done = image.run(
        *("/bin/bash", "/opt/gpu/run.sh", "--cpu", "--only", "ddp", "/tmp/out"),
        only_writable="/tmp /home/ditask",
    )
    shown = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, shown
    assert "--cpu: a rehearsal on the CPU. The results say nothing about a GPU." in done.stdout
    assert re.search(r"gloo, world 1: 20 steps, loss [\d.]+ -> ", done.stdout), shown
