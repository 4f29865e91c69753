"""The gate, run as by the kubelet, and the installation of the launcher into the pod. Its messages
while it waits and the wait for names are tested in the launcher's gate/gate_test.go.
"""

import os
import re
import shutil
import signal
import stat
from pathlib import Path

import pytest
from cluster.waiting import until_true
from pod.boxes import FARAWAY, NET_NAMESPACE, UNSHARE, Box, shown
from pod.processes import WHERE, first_process, line

IPS = "10.0.0.1,10.0.0.2,10.0.0.3"
OPENS = r"dijob gate: open after \d+ s: "
NAMES = "127.0.0.2,world-1.world,world-2.world"  # rank 0 has succeeded, so its name is not needed


def gate(box: Box) -> list[str]:
    return [str(box.bin / "gate")]


def environment(rank: int = 1, ip: str = "10.0.0.2") -> dict[str, str]:
    return {"DI_RANK": str(rank), "DI_POD_IP": ip}


def project(box: Box, ips: str) -> None:
    """Write the annotations file, as the kubelet does."""
    box.shows("1", ips)


def test_opens_once_the_list_has_come(box: Box) -> None:
    process = box.start(gate(box), **environment())
    assert line(process) == "dijob gate: rank 1 is waiting for the addresses of all ranks"
    project(box, IPS)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out.startswith("dijob gate: open after ")


def with_dns(box: Box, hosts: str, resolver: str, network: str = "") -> list[str]:
    """Return a prefix for commands, with which names are looked up in these files, in a separate
    network.
    """
    files = {"hosts": hosts, "resolv.conf": resolver}
    for name, text in files.items():
        (box.path / name).write_text(text)
    mounts = "".join(f"mount --bind {box.path}/{name} /etc/{name}; " for name in files)
    return [*NET_NAMESPACE, "--mount", "sh", "-ec", f'{network}{mounts}exec "$@"', "sh"]


NAMED = {"DI_TOPOLOGY": "mesh", **environment(2, "10.0.0.3")}


def test_asks_for_names_as_any_program_of_the_pod(box: Box) -> None:
    project(box, NAMES)
    hosts = "10.0.0.2 world-1.world\n10.0.0.3 world-2.world\n"
    rc, out, err = box.run([*with_dns(box, hosts, "nameserver 10.9.9.7\n"), *gate(box)], **NAMED)
    assert (rc, err) == (0, "")
    assert re.fullmatch(OPENS + "the address of rank 2 is 10.0.0.3\n", out), out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
@WHERE
def test_ends_at_once(box: Box, namespace: list[str], number: signal.Signals) -> None:
    process = box.start([*namespace, *gate(box)], **environment())
    assert line(process) == "dijob gate: rank 1 is waiting for the addresses of all ranks"
    os.kill(first_process(process, namespace), number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number


def test_ends_at_once_also_while_the_dns_does_not_answer(box: Box) -> None:
    project(box, NAMES)
    patient = "nameserver 10.9.9.7\noptions timeout:60\n"
    process = box.start([*with_dns(box, "", patient, FARAWAY), *gate(box)], **NAMED)
    asked = Path(f"/proc/{process.pid}/net/udp")
    until_true("the gate asks 10.9.9.7:53", lambda: "0709090A:0035" in asked.read_text())
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM


def test_the_program_is_installed_whole_and_may_be_again(box: Box, launcher: Path) -> None:
    folder = box.path / "volume/bin"
    folder.mkdir(parents=True)
    (folder / "launch").write_text("half a progr")
    for _ in range(2):
        careful = ["sh", "-c", 'umask 077; exec "$@"', "sh", str(launcher), "install"]
        rc, _, err = box.run(careful, DIJOB_BIN_DIR=str(folder))
        assert (rc, err) == (0, "")
        names = {file.name for file in folder.iterdir()}
        assert names == {"launch", "gate", "reach", "python", "path"}
        assert [file.name for file in (folder / "path").iterdir()] == ["ditask"]
        programs = ("launch", "gate", "reach", "path/ditask")
        assert {(folder / name).resolve() for name in programs} == {folder / "launch"}
        assert stat.S_IMODE((folder / "path").stat().st_mode) == 0o755
        assert stat.S_IMODE((folder / "python").stat().st_mode) == 0o755
        assert (folder / "launch").read_bytes() == launcher.read_bytes()
        assert stat.S_IMODE((folder / "launch").stat().st_mode) == 0o755


@WHERE
def test_a_container_that_holds_the_image_ends_on_sigterm(
    box: Box, launcher: Path, namespace: list[str]
) -> None:
    process = box.start([*namespace, str(launcher), "hold"])
    assert line(process).startswith("dijob: keeps ")
    pid = first_process(process, namespace)
    os.kill(pid, signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: a user namespace of one's own has one user"
)
def test_as_nobody_on_a_read_only_root_without_any_other_program(box: Box, launcher: Path) -> None:
    """The root is empty except for the mounts, as with an image FROM scratch."""
    root = box.path / "root"
    for folder in ("run/dijob", "proc", "python"):
        (root / folder).mkdir(parents=True)
    shutil.copy(launcher, root / "dijob-launcher")
    (root / "python/annotations").write_text(shown("1", IPS))
    nobody = ["/usr/sbin/chroot", "--userspec=65534:65534", str(root)]
    mounts = (
        'set -e; mount --bind "$1" "$1"; mount -t tmpfs -o mode=0777 none "$1/run/dijob";'
        ' mkdir "$1/run/dijob/pod"; mv "$1/python/annotations" "$1/run/dijob/pod";'
        ' mount --rbind /proc "$1/proc"; mount -o remount,bind,ro "$1"; shift;'
        ' "$@" /dijob-launcher install; "$@" /run/dijob/bin/gate;'
        ' exec "$@" /run/dijob/bin/launch /dijob-launcher'
    )
    run = [*UNSHARE, "--mount", "/bin/sh", "-c", mounts, "sh", str(root), *nobody]
    rc, out, err = box.run(run, **environment())
    assert re.search(OPENS + "the address of rank 1 is 10.0.0.2", out), err
    # The launcher has run the user's program, whose exit code is the container's.
    assert rc == 2
    assert err.startswith("usage: dijob-launcher install"), err
