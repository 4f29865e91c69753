"""The static launcher's gate, run as the kubelet runs it, and how the program comes into the pod.
What it says while it waits, and how it waits for names, is in images/launcher/gate_test.go.
"""

import os
import shutil
import signal
import stat
from pathlib import Path

import pytest
from pod import gobuild
from pod.boxes import PID_NAMESPACE, STATIC, UNSHARE, Box
from pod.test_gate import IPS, OPENS, environment, project
from pod.test_launch import first_process, line

static = pytest.mark.parametrize("box", [STATIC], indirect=True)


def gate(box: Box) -> list[str]:
    return [str(box.bin / "gate")]


def test_its_own_tests_pass() -> None:
    done = gobuild.go("test", "-vet=all", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@static
@OPENS
def test_opens_for_its_own_address(box: Box, ips: str, rank: int, ip: str) -> None:
    project(box, ips)
    rc, out, err = box.run(gate(box), **environment(box, rank, ip))
    assert (rc, out, err) == (0, f"dijob gate: open after 0 s: rank {rank} is {ip}\n", "")


@static
def test_opens_once_the_list_has_come(box: Box) -> None:
    process = box.start(gate(box), **environment(box))
    project(box, IPS)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out.count("open after 0 s")) == (0, 1)


@static
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
@pytest.mark.parametrize("namespace", [[], PID_NAMESPACE], ids=["child", "PID-1"])
def test_ends_at_once(box: Box, namespace: list[str], number: signal.Signals) -> None:
    process = box.start([*namespace, *gate(box)], **environment(box))
    assert line(process) == "dijob gate: rank 1 waits for the addresses of all ranks"
    os.kill(first_process(process, namespace), number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number


@static
@pytest.mark.parametrize(
    ("name", "value"), [("DI_RANK", ""), ("DI_RANK", "1;x"), ("DI_RANK", "-1"), ("DI_POD_IP", "")]
)
def test_a_variable_that_is_wrong_is_named(box: Box, name: str, value: str) -> None:
    rc, _, err = box.run(gate(box), **environment(box) | {name: value})
    assert rc == 1
    assert err.startswith(f"dijob gate: {name} is ")


@static
def test_the_program_is_dropped_whole_and_may_be_again(box: Box, launcher: Path) -> None:
    folder = box.path / "drop"
    folder.mkdir()
    (folder / "launch").write_text("half a progr")
    for _ in range(2):
        rc, _, err = box.run([str(launcher), "install"], DIJOB_BIN_DIR=str(folder))
        assert (rc, err) == (0, "")
        assert {file.name for file in folder.iterdir()} == {"launch", "gate", "ditask"}
        assert (folder / "launch").read_bytes() == launcher.read_bytes()
        assert stat.S_IMODE((folder / "launch").stat().st_mode) == 0o755
        assert (box.path / "topology.json").readlink() == Path("pod/topology.json")


@static
def test_a_folder_that_cannot_be_written_ends_with_a_sentence(box: Box, launcher: Path) -> None:
    (box.path / "file").touch()
    folder = box.path / "file/bin"
    rc, _, err = box.run([str(launcher), "install"], DIJOB_BIN_DIR=str(folder))
    assert rc == 1
    assert f"cannot write {folder}: it must be an emptyDir that this user may write" in err


@static
@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: a user namespace of one's own has one user"
)
def test_as_nobody_on_a_read_only_root_without_any_other_program(box: Box, launcher: Path) -> None:
    """An image from scratch: a root with nothing in it but what is mounted."""
    root = box.path / "root"
    for folder in ("run/dijob", "projected", "proc"):
        (root / folder).mkdir(parents=True)
    shutil.copy(launcher, root / "dijob-launcher")
    (root / "projected/node-ips").write_text(IPS)
    nobody = ["/usr/sbin/chroot", "--userspec=65534:65534", str(root)]
    mounts = (
        'set -e; mount --bind "$1" "$1"; mount -t tmpfs -o mode=0777 none "$1/run/dijob";'
        ' mount --rbind /proc "$1/proc"; mount -o remount,bind,ro "$1"; shift;'
        ' "$@" /dijob-launcher install; "$@" /run/dijob/bin/gate;'
        ' exec "$@" /run/dijob/bin/launch /dijob-launcher'
    )
    env = {"DIJOB_POD_DIR": "/projected", "DI_RANK": "1", "DI_POD_IP": "10.0.0.2"}
    run = [*UNSHARE, "--mount", "/bin/sh", "-c", mounts, "sh", str(root), *nobody]
    rc, out, err = box.run(run, **env)
    assert "open after 0 s: rank 1 is 10.0.0.2" in out, err
    # The user's own program has run behind the launcher, and its exit code is the container's.
    assert rc == 2
    assert err.startswith("usage: dijob-launcher install"), err
