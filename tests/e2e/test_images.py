"""The images: size, user, content, and that their programs run."""

import importlib.metadata
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unpacked import ROOT, Unpacked

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="unpacking and entering an image needs root"),
]

RUNTIME = ROOT / "images/dijob-runtime/dijob_runtime"
LIMITS_MB = {"launcher": 4, "stacks": 12, "light": 130, "operator": 400, "ditask": 2000}
STACKS_LOCK = ROOT / "images/stacks/requirements.txt"

ONE_STEP = """
from ding.framework import task

def main():
    with task.start(async_mode=False):
        node = task.router.node_id
        task.use(lambda ctx: print(f"step {ctx.total_step} of node {node}", flush=True))
        task.run(max_step=1)
"""


@pytest.fixture(params=LIMITS_MB)
def image(request: pytest.FixtureRequest, shelf: Callable[[str], Unpacked]) -> Unpacked:
    return shelf(request.param)


@pytest.fixture
def ditask(shelf: Callable[[str], Unpacked]) -> Unpacked:
    return shelf("ditask")


@pytest.fixture
def operator(shelf: Callable[[str], Unpacked]) -> Unpacked:
    return shelf("operator")


@pytest.fixture
def light(shelf: Callable[[str], Unpacked]) -> Unpacked:
    return shelf("light")


def test_size_and_user(image: Unpacked) -> None:
    sizes = {"archive": image.archive.stat().st_size / 1e6, "unpacked": image.size() / 1e6}
    print(f"{image.name}: " + ", ".join(f"{what} {size:.1f} MB" for what, size in sizes.items()))
    assert max(sizes.values()) < LIMITS_MB[image.name], sizes
    if (
        image.name == "stacks"
    ):  # py-spy needs root to read other processes; the container that uses it sets the user
        assert not image.config.get("User")
        return
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", str(image.config["User"])), image.config


def test_images_contain_nothing_of_the_build_machine(image: Unpacked) -> None:
    names = {str(path.relative_to(image.files)) for path in image.walk()}
    left = [
        n
        for n in names
        if re.match(r"run/.*(pip\.conf|ca\.crt)|var/lib/apt/lists/.|.*\.deb$|root/\.cache/", n)
    ]
    assert not left
    for name in ("etc/resolv.conf", "etc/hostname"):
        path = image.files / name
        assert not path.exists() or not path.read_text().strip(), f"{name}: {path.read_text()!r}"
    assert not [n for n in names if re.fullmatch(r"usr/bin/(cc|gcc|g\+\+|ld|make)(-.*)?", n)], (
        "a compiler"
    )


def test_ditask_contains_di_engine_and_only_our_code_for_pods(ditask: Unpacked) -> None:
    packages = ditask.files / "usr/local/lib/python3.11/dist-packages"
    ours = packages / "dijob_runtime"
    assert {p.name for p in ours.glob("*.py")} == {p.name for p in RUNTIME.glob("*.py")}
    rest = [p for p in ditask.walk() if not p.is_relative_to(ours)]
    assert not [str(p) for p in rest if "dijob" in str(p.relative_to(ditask.files)).lower()]
    installed = list(importlib.metadata.distributions(path=[str(packages)]))
    pins = (ROOT / "images/ditask/constraints.txt").read_text().splitlines()
    allowed = {line.lower().replace("-", "_") for line in pins if "==" in line}
    found = {f"{d.metadata['Name']}=={d.version}".lower().replace("-", "_") for d in installed}
    assert "di_engine==0.5.3" in found
    assert found <= allowed, found - allowed
    recorded = {
        os.path.normpath(packages / str(file)) for dist in installed for file in dist.files or []
    }
    strangers = [
        str(p)
        for p in rest
        if p.is_relative_to(ditask.files / "usr/local") and str(p) not in recorded
    ]
    assert not [name for name in strangers if not name.endswith(".pyc")]


def test_every_module_of_ditask_is_compiled_and_valid(ditask: Unpacked) -> None:
    stale = []
    for path in (ditask.files / "usr").rglob("*-packages/**/*.py"):
        cached = path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc"
        header = cached.read_bytes()[:16] if cached.exists() else b"\0" * 16
        source = path.stat()
        if struct.unpack("<4xIII", header) != (0, int(source.st_mtime), source.st_size):
            stale.append(str(path.relative_to(ditask.files)))
    assert not stale, f"{len(stale)}, such as {stale[:5]}"


def test_ditask_takes_a_step_on_each_worker_as_any_user(ditask: Unpacked) -> None:
    """(In the pods of the other tests, it runs as root.)"""
    module = ditask.files / "home/ditask/one_step.py"
    module.write_text(ONE_STEP)
    command = (
        "ditask --package . --main one_step.main --platform k8s --topology mesh"
        " --parallel-workers 2"
    )
    world = {"DI_RANK": "0", "DI_NODES": "127.0.0.1"}
    done = ditask.run("sh", "-c", f"cd && {command}", user="12345:12345", **world)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"step \d of node \d", done.stdout)) == [
        "step 0 of node 0",
        "step 0 of node 1",
    ]


def test_ditask_has_the_shells_and_pythons_that_users_call(ditask: Unpacked) -> None:
    done = ditask.run(
        "bash",
        "-c",
        "readlink /bin/sh; command -v ditask python3; python3 -m ding.entry.cli_ditask",
    )
    assert (done.returncode, done.stdout.split()) == (
        0,
        ["dash", "/usr/local/bin/ditask", "/usr/bin/python3"],
    ), done


def test_operator_starts_on_a_read_only_root(operator: Unpacked) -> None:
    entry = operator.config["Entrypoint"]
    assert isinstance(entry, list)
    said = operator.run(*entry, "--help", only_writable="tmp")
    assert said.returncode == 0, said.stderr
    assert "--health-port" in said.stdout
    refused = operator.run("sh", "-c", "id -u; touch /opt/dijob/x", only_writable="tmp", user="0:0")
    assert "Read-only file system" in refused.stderr, "the test's root was writable"


def test_operator_server_and_page_work_without_the_commands(operator: Unpacked) -> None:
    (dijob,) = operator.files.glob("opt/dijob/lib/*/site-packages/dijob")
    assert not (dijob / "cli/commands").exists()
    script = (
        "import importlib, pkgutil, dijob\n"
        "for one in pkgutil.walk_packages(dijob.__path__, 'dijob.'):\n"
        "    if not one.name.startswith('dijob.cli') and not one.name.endswith('__main__'):\n"
        "        importlib.import_module(one.name)\n"
        "import dijob.__main__, dijob.server.__main__\n"
    )
    done = operator.run("python", "-c", script, only_writable="tmp")
    assert (done.returncode, done.stderr) == (0, ""), done
    for module in ("dijob.server", "dijob_extras.ui.cluster"):
        said = operator.run("python", "-m", module, "--help", only_writable="tmp")
        assert said.returncode == 0, said


def test_operator_contains_no_package_installer(operator: Unpacked) -> None:
    for module in ("pip", "setuptools"):
        done = operator.run("python", "-c", f"import {module}")
        assert f"No module named '{module}'" in done.stderr, done


def test_light_peer_completes_a_mesh_in_its_image(light: Unpacked) -> None:
    world = {
        "DI_RANK": "0",
        "DI_NODES": "127.0.0.1",
        "DI_PARALLEL_WORKERS": "3",
        "DI_TOPOLOGY": "mesh",
    }
    done = light.run("light-peer", "--exit-code", "7", **world)
    assert done.returncode == 7, done
    assert sorted(re.findall(r"^peer \d connected to \d$", done.stdout, re.M)) == [
        "peer 1 connected to 0",
        "peer 2 connected to 0",
        "peer 2 connected to 1",
    ]


@pytest.mark.parametrize("tool", ["bash", "busybox", "ip", "ps", "python3", "ss"])
def test_light_has_the_tools_of_the_tests(light: Unpacked, tool: str) -> None:
    done = light.run("sh", "-c", f"command -v {tool}")
    assert done.stdout.strip().endswith(f"/{tool}"), done


def bill_of(name: str) -> dict[str, Any]:
    """Return the bill of materials of an image, as `make sbom` writes it."""
    written = subprocess.run(
        [sys.executable, str(ROOT / "images/sbom.py"), name],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(Path(written.stdout.strip()).read_text())
    return found


def listed(bill: dict[str, Any], kind: str) -> set[str]:
    """Return NAME==VERSION of the bill's components of one kind of package URL."""
    return {
        f"{each['name']}=={each['version']}"
        for each in bill["components"]
        if each["purl"].startswith(f"pkg:{kind}/")
    }


def pip_installed(image: Unpacked) -> set[str]:
    """Return the packages that pip has installed, from the image's files."""
    folders = [path for path in image.files.glob("*/**/*-packages") if path.is_dir()]
    folders = [path for path in folders if path.parent.name != "python3"]  # Debian's own
    return {
        f"{re.sub(r'[-_.]+', '-', each.metadata['Name']).lower()}=={each.version}"
        for each in importlib.metadata.distributions(path=[str(path) for path in folders])
    }


def test_the_bill_of_materials_is_what_is_in_the_image(image: Unpacked) -> None:
    bill = bill_of(image.name)
    assert len({each["bom-ref"] for each in bill["components"]}) == len(bill["components"])
    if image.name in ("launcher", "stacks"):
        assert bill == bill_of(image.name)
        (stdlib,) = listed(bill, "golang")
        version = stdlib.removeprefix("stdlib==")
        program = "launch" if image.name == "launcher" else "stacks"
        assert f"go{version}".encode() in (image.files / program).read_bytes()
        pins = re.findall(r"^(py-spy==\S+) ", STACKS_LOCK.read_text(), re.MULTILINE)
        assert listed(bill, "pypi") == (set(pins) if program == "stacks" else set())
        assert len(bill["components"]) == 1 + len(listed(bill, "pypi"))
        return
    said = image.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package}==${Version}\\n")
    packages = {line[3:] for line in said.stdout.splitlines() if line.startswith("ii ")}
    assert len(packages) > 80, said
    assert listed(bill, "deb/debian") == packages
    assert listed(bill, "pypi") == pip_installed(image)


def test_the_operators_bill_has_the_locked_packages_and_their_licences() -> None:
    bill = bill_of("operator")
    pins = re.findall(r"^([\w.-]+==\S+) ", (ROOT / "requirements.txt").read_text(), re.M)
    assert listed(bill, "pypi") == set(pins)
    python = [each for each in bill["components"] if each["purl"].startswith("pkg:pypi/")]
    assert not [each["name"] for each in python if not each.get("licenses")]
