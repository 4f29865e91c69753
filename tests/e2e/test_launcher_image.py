"""The images of the launcher and of the stack reader have one static program each."""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable

import pytest
from cluster.waiting import until_true
from unpacked import CHROOT, ROOT, Unpacked, unpacked

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="unpacking and entering an image needs root"),
]

LAUNCHER_LINKS = dict.fromkeys(("gate", "reach", "install", "hold"), "launch")
LAUNCHER_LINKS["path/ditask"] = "../launch"
# Segment types of a program that needs a dynamic linker: PT_DYNAMIC and PT_INTERP.
DYNAMIC = {2, 3}


@pytest.fixture
def launcher(shelf: Callable[[str], Unpacked]) -> Unpacked:
    return shelf("launcher")


def test_launcher_is_one_program_under_its_names() -> None:
    # Unpack again: running a program in an image adds mount points to it.
    with unpacked("launcher") as image:
        found = {str(p.relative_to(image.files)): p for p in image.files.rglob("*")}
        links = {name: os.readlink(path) for name, path in found.items() if path.is_symlink()}
        modes = {
            name: oct(path.stat().st_mode) for name, path in found.items() if name not in links
        }
    assert links == LAUNCHER_LINKS
    python = {name: modes.pop(name) for name in list(modes) if name.startswith("python")}
    assert modes == {"launch": "0o100755", "path": "0o40755"}
    assert python["python/sitecustomize.py"] == python["python/dijob_runtime/hook/nng.py"]
    assert set(python.values()) == {"0o40755", "0o100644"}
    assert image.config["Cmd"] == ["/install"]
    assert not image.config.get("Entrypoint")


def test_launcher_is_static_and_contains_no_path_of_the_build_machine(
    launcher: Unpacked,
) -> None:
    program = (launcher.files / "launch").read_bytes()
    assert program[:5] == b"\x7fELF\x02", "no ELF program of 64 bits"
    first, size, number = (
        *struct.unpack_from("<Q", program, 32),
        *struct.unpack_from("<HH", program, 54),
    )
    kinds = {struct.unpack_from("<I", program, first + at * size)[0] for at in range(number)}
    assert kinds
    assert not kinds & DYNAMIC
    assert str(ROOT).encode() not in program


def test_stacks_reads_python_processes_outside_its_image() -> None:
    """The process here is a Python of this machine, with a different root from the image's."""
    child = subprocess.Popen(
        [sys.executable, "-c", "import time\ndef nap():\n    time.sleep(600)\nnap()"],
        env={**os.environ, "DI_RANK": "test-of-stacks"},
    )
    try:
        with unpacked("stacks") as image:
            assert {str(p.relative_to(image.files)) for p in image.walk()} >= {"stacks", "py-spy"}
            found = until_true("it sleeps", lambda: naps(image, child.pid), 120)
    finally:
        child.kill()
        child.wait()
    assert found == ["nap", "<module>"]


def naps(image: Unpacked, pid: int) -> list[str] | None:
    """Return the functions of the process when it sleeps, the innermost first."""
    script = (
        'mkdir -p "$0/proc" "$0/dev"; mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev";'
        ' exec "$1" "$0" /stacks DI_RANK=test-of-stacks'
    )
    said = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", script, str(image.files), CHROOT],
        capture_output=True,
        text=True,
        check=True,
    )
    first, end = map(json.loads, said.stdout.splitlines())
    assert (first["pid"], end) == (pid, {"processes": 1}), said
    frames = [frame["name"] for thread in first.get("threads", ()) for frame in thread["frames"]]
    return frames if "sleep" in first["waits"].get(str(pid), "") else None


def test_launcher_prints_its_usage_and_installs_itself_on_a_read_only_root(
    launcher: Unpacked,
) -> None:
    said = launcher.run("launch", only_writable="dev/shm")
    assert (said.returncode, "usage: launch COMMAND" in said.stderr) == (2, True), said
    installed = launcher.run(
        *launcher.config["Cmd"], only_writable="dev/shm", DIJOB_BIN_DIR="/dev/shm/bin"
    )
    assert (installed.returncode, installed.stderr) == (0, "")
    refused = launcher.run(*launcher.config["Cmd"], only_writable="dev/shm", DIJOB_BIN_DIR="/bin")
    assert "read-only file system" in refused.stderr, "the test's root was writable"
