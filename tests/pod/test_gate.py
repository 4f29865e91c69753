"""The gate, run as the kubelet runs it: it opens for the right list only, says why it waits, and
ends at once.
"""

import os
import shutil
import signal
import stat
import time
from pathlib import Path

import pytest
from cluster.waiting import until_true
from dijob import pod
from pod.boxes import PID_NAMESPACE, SHELLS, UNSHARE, Box

pytestmark = pytest.mark.parametrize("box", list(SHELLS), indirect=True)

# Counts the polls and makes them fast: fifty are the gate's ten seconds.
COUNTING_SLEEP = "#!/bin/sh\necho >>{log}\nexec {real} 0.002\n"
IPS = "10.0.0.1,10.0.0.2,10.0.0.3"


def gate(box: Box) -> list[str]:
    return [*box.shell, "-c", pod.GATE, "dijob-gate", pod.LAUNCHER, pod.DITASK, pod.REACH]


def environment(box: Box, rank: int = 1, ip: str = "10.0.0.2") -> dict[str, str]:
    drop, projected = box.path / "drop", box.path / "projected"
    for folder in (drop, projected):
        folder.mkdir(exist_ok=True)
    drop.chmod(0o777)
    return {
        "DIJOB_BIN_DIR": str(drop),
        "DIJOB_POD_DIR": str(projected),
        "DI_RANK": str(rank),
        "DI_POD_IP": ip,
        "DI_JOB_NAME": "demo",
        "DI_JOB_NAMESPACE": "team",
    }


def project(box: Box, ips: str) -> None:
    """As the kubelet does it: a new file renamed into place, no newline at its end."""
    (box.path / "projected").mkdir(exist_ok=True)
    new = box.path / "projected" / "new"
    new.write_text(ips)
    new.rename(box.path / "projected" / "node-ips")


def fast(box: Box) -> tuple[Path, dict[str, str]]:
    """The file that grows by a byte per poll, and the PATH that makes it so."""
    log = box.path / "polls"
    log.touch()
    real = shutil.which("sleep", path=box.env["PATH"])
    box.script("fast/sleep", COUNTING_SLEEP.format(log=log, real=real))
    return log, {"PATH": f"{box.path / 'fast'}:{box.env['PATH']}"}


OPENS = pytest.mark.parametrize(
    ("ips", "rank", "ip"),
    [
        (IPS, 0, "10.0.0.1"),
        (IPS, 2, "10.0.0.3"),
        ("10.0.0.1\n", 0, "10.0.0.1"),
        ("fd00::1,fd00::2", 1, "fd00::2"),
        (",".join(f"10.0.{i // 250}.{i % 250}" for i in range(1500)), 1499, "10.0.5.249"),
    ],
    ids=["first", "last", "newline", "IPv6", "1500-ranks"],
)


@OPENS
def test_opens_for_its_own_address(box: Box, ips: str, rank: int, ip: str) -> None:
    project(box, ips)
    rc, out, err = box.run(gate(box), **environment(box, rank, ip))
    assert (rc, out, err) == (0, f"dijob gate: open after 0 s: rank {rank} is {ip}\n", "")


@pytest.mark.parametrize(
    "ips",
    [
        None,
        "",
        "10.0.0.1",
        "10.0.0.1,10.0.0.22,10.0.0.3",
        "10.0.0.2,10.0.0.1",
        "10.0.0.1,,10.0.0.2",
        "10.0.0.1,*",
    ],
    ids=["no-file", "empty", "too-short", "prefix", "other-rank", "no-entry", "glob"],
)
def test_a_list_without_its_address_never_opens_and_the_right_one_does(
    box: Box, ips: str | None
) -> None:
    env = environment(box)
    if ips is not None:
        project(box, ips)
    polls, path = fast(box)
    process = box.start(gate(box), **env | path)
    # 55 polls are eleven of the gate's seconds: one report.
    until_true("the gate polls", lambda: polls.stat().st_size > 55)
    assert process.poll() is None
    project(box, IPS)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    report = [line for line in out.splitlines() if "has waited" in line]
    assert report[0].startswith("dijob gate: rank 1 has waited 10 s: ")
    assert "kubectl describe dijob demo -n team" in report[0]
    named = [*(ips or "").split(","), ""][1]
    why = (
        f"the list names {named} for this rank, this pod has 10.0.0.2"
        if named
        else "not every rank"
    )
    assert why in report[0]


def test_opens_soon_after_the_list_came(box: Box) -> None:
    process = box.start(gate(box), **environment(box))
    until_true(
        "the scripts are there before the list is",
        lambda: (box.path / "drop" / "reach.py").exists(),
    )
    project(box, IPS)
    start = time.monotonic()
    process.communicate(timeout=30)
    took = time.monotonic() - start
    print(f"opened {took:.3f} s after the list")
    assert process.returncode == 0
    assert took < 10


def test_a_sleep_that_knows_whole_seconds_only(box: Box) -> None:
    log, path = fast(box)
    whole = box.script("fast/sleep", 'case $1 in *.*) echo "invalid number" >&2; exit 1 ;; esac\n')
    whole.write_text(f"#!/bin/sh\n{whole.read_text()}echo >>{log}\n")
    process = box.start(gate(box), **environment(box) | path)
    until_true("the gate polls once a second", lambda: log.stat().st_size > 15)
    project(box, IPS)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "rank 1 has waited 10 s" in out
    assert box.err() == ""


def test_no_sleep_at_all_ends_with_a_sentence(box: Box) -> None:
    _, path = fast(box)
    box.script("fast/sleep", "#!/bin/sh\nexit 127\n")
    rc, _, err = box.run(gate(box), **environment(box) | path)
    assert (rc, err) == (
        1,
        "dijob gate: this image's sleep does not work; set the chart's gateImage\n",
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
@pytest.mark.parametrize("namespace", [[], PID_NAMESPACE], ids=["child", "PID-1"])
def test_ends_at_once(box: Box, namespace: list[str], number: signal.Signals) -> None:
    process = box.start([*namespace, *gate(box)], **environment(box))
    until_true("the gate runs", lambda: (box.path / "drop" / "reach.py").exists())
    target = process.pid
    if namespace:
        target = int(
            until_true(
                "a child", lambda: Path(f"/proc/{target}/task/{target}/children").read_text()
            ).split()[0]
        )
    os.kill(target, number)
    process.communicate(timeout=30)  # a PID 1 without a trap would never end
    assert process.returncode == 128 + number


def test_drops_the_scripts_and_does_so_again(box: Box) -> None:
    project(box, IPS)
    env = environment(box)
    (box.path / "drop" / "launch").write_text("half a fi")
    for _ in range(2):
        assert box.run(gate(box), **env)[0] == 0
        dropped = {file.name: file for file in (box.path / "drop").iterdir()}
        assert set(dropped) == {"launch", "ditask", "reach.py"}
        texts = {"launch": pod.LAUNCHER, "ditask": pod.DITASK, "reach.py": pod.REACH}
        assert {name: file.read_text() for name, file in dropped.items()} == {
            n: t + "\n" for n, t in texts.items()
        }
        assert {stat.S_IMODE(file.stat().st_mode) for file in dropped.values()} == {0o755}


def test_settles_where_no_launcher_will_look(box: Box) -> None:
    project(box, IPS)
    begin = time.monotonic()
    assert box.run(gate(box), **environment(box), DIJOB_SETTLE_SECONDS="1")[0] == 0
    assert time.monotonic() - begin >= 1


@pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: a user namespace of one's own has one user"
)
def test_as_nobody_on_a_read_only_root(box: Box) -> None:
    project(box, IPS)
    volume = box.path / "volume"
    volume.mkdir()
    env = environment(box) | {"DIJOB_BIN_DIR": str(volume / "bin")}
    # Absolute paths: only the gate itself runs on the image's programs.
    setpriv = [
        "/usr/bin/setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--no-new-privs",
        "--inh-caps=-all",
    ]
    mounts = (
        'set -e; /bin/mount -t tmpfs -o mode=0777 none "${DIJOB_BIN_DIR%/*}"; /bin/mount -o'
        " remount,bind,ro /; "
    )
    probe = (
        '"$@"; /bin/ls -ln "$DIJOB_BIN_DIR" "${DIJOB_BIN_DIR%/*}"; ! /bin/touch "$DIJOB_POD_DIR/x"'
        " 2>/dev/null"
    )
    command = [*UNSHARE, "--mount", "/bin/sh", "-c", mounts + probe, "sh", *setpriv, *gate(box)]
    rc, out, err = box.run(command, **env)
    assert (rc, err) == (0, ""), out
    # A link is counted where it lies: beside the folder.
    assert out.count(" 65534 65534 ") == 3 + 2, out
    assert "topology.json -> pod/topology.json" in out


def test_a_folder_that_cannot_be_written_ends_with_a_sentence(box: Box) -> None:
    (box.path / "file").touch()
    env = environment(box) | {"DIJOB_BIN_DIR": str(box.path / "file/bin")}
    rc, _, err = box.run(gate(box), **env)
    assert rc == 1
    assert (
        f"cannot write {box.path / 'file/bin'}: it must be an emptyDir that this user may write"
        in err
    )


@pytest.mark.parametrize(
    ("name", "value"), [("DI_RANK", ""), ("DI_RANK", "1;x"), ("DI_RANK", "-1"), ("DI_POD_IP", "")]
)
def test_a_variable_that_is_wrong_is_named(box: Box, name: str, value: str) -> None:
    project(box, ",,")
    rc, _, err = box.run(gate(box), **environment(box) | {name: value})
    assert rc == 1
    assert err.startswith(f"dijob gate: {name} is ")
