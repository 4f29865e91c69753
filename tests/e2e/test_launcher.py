"""The ways in which users start ditask in DI-engine's image: each joins the mesh."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from archives import archive, with_entry_point
from jobs import DITASK, REAL_SECONDS, config_map, job, mounted
from sockets import mesh, until_edges
from space import Body, Space, measured

pytestmark = pytest.mark.e2e

PORTS = [50515]
# DI-engine connects before it calls main, and stays connected while main runs.
STAY = """
import signal, sys, time

def main():
    def told(number, frame):
        print("main was told to end", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, told)
    print("main runs", flush=True)
    while True:
        time.sleep(1)
"""
CALL = "ditask --package /code --main stay.main"
# `pip install DI-engine` creates another ditask in a virtual environment.
VENV = f"""
python3 -m venv --without-pip --system-site-packages /tmp/venv
cp /usr/local/bin/ditask /tmp/venv/bin/
. /tmp/venv/bin/activate
{CALL}
"""
# test_mesh.py has the exec form. The operator cannot read the options in a script, but they must
# take precedence anyway.
FORMS: dict[str, list[str]] = {
    "bash": ["/bin/bash", "-c", CALL],
    "script": ["/code/star.sh"],
    "venv": ["/bin/bash", "-c", VENV],
}
UNREACHABLE = f"""
# An address of this node's own range that no pod has, so nothing answers at it.
[ "$DI_RANK" = 0 ] || export DI_NODES="${{DI_POD_IP%.*}}.254,$DI_POD_IP"
{CALL}
"""
# Far longer than a regular end takes on a busy machine: a process that does not receive SIGTERM is
# killed after it.
GRACE = 120
ENTRY = "dijob/entry:dev"


def real(name: str, command: list[str], **spec: object) -> Body:
    """Return a job that runs DI-engine."""
    mount, volume = mounted("code", "/code")
    env = [
        {"name": "OMP_NUM_THREADS", "value": "1"},
        {"name": "DIJOB_REACH_SECONDS", "value": "10"},
    ]
    pod = {**volume, "terminationGracePeriodSeconds": GRACE}
    return job(name, {"image": DITASK, "command": command, "env": env, **mount}, pod=pod, **spec)


def code() -> Body:
    return config_map("code", stay_py=STAY, star_sh=f"#!/bin/bash\n{CALL} --topology star\n")


@pytest.fixture(scope="module")
def forms(open_space: Callable[[str], AbstractContextManager[Space]]) -> Iterator[Space]:
    """Yield a running job for each form; three pods if the topology must be visible."""
    with open_space("forms") as space:
        space.apply(code())
        for name, command in FORMS.items():
            space.apply(real(name, command, replicas=3 if name == "script" else 2))
        yield space


@pytest.mark.long
def test_a_command_in_a_shell_joins_the_mesh(forms: Space) -> None:
    forms.until_true("bash", "Running", REAL_SECONDS)
    until_edges(forms, "bash", mesh(forms.ips("bash"), 1), PORTS, REAL_SECONDS)
    assert not forms.condition("bash", "LauncherBypassed")
    assert "dijob: WARNING" not in forms.logs("bash-1")


def test_a_script_is_launched_and_its_topology_takes_precedence(forms: Space) -> None:
    forms.until_true("script", "Running", REAL_SECONDS)
    first, *others = forms.ips("script")
    assert "DI_TOPOLOGY=mesh" in forms.execute("script-1", "env").splitlines()
    until_edges(
        forms, "script", Counter({(ip, first, PORTS[0]): 1 for ip in others}), PORTS, REAL_SECONDS
    )


def test_an_activated_environment_joins_the_mesh(forms: Space) -> None:
    forms.until_true("venv", "Running", REAL_SECONDS)
    until_edges(forms, "venv", mesh(forms.ips("venv"), 1), PORTS, REAL_SECONDS)
    assert not forms.condition("venv", "LauncherBypassed")
    assert "dijob: WARNING" not in forms.logs("venv-1")


def test_sigterm_reaches_di_engine_through_bash(forms: Space) -> None:
    forms.until(
        "main runs", lambda: "" if "main runs" in forms.logs("bash-1") else "not yet", REAL_SECONDS
    )
    uid = forms.pods("bash")[1]["metadata"]["uid"]
    # Unbuffered: the first line is read separately, and the rest is not cut within a character.
    with subprocess.Popen(
        forms.command("logs", "-f", "bash-1"), stdout=subprocess.PIPE, bufsize=0
    ) as follower:
        try:
            assert follower.stdout is not None
            follower.stdout.readline()  # the log is being followed
            begin = time.monotonic()
            forms.kubectl("delete", "pod", "bash-1", "--wait=false")
            forms.until_gone(
                "bash-1",
                lambda: [uid for p in forms.pods("bash") if p["metadata"]["uid"] == uid],
                90,
            )
            seconds = time.monotonic() - begin
            forms.kubectl("delete", "dijob", "bash")
            log = follower.communicate(timeout=90)[0].decode()
        finally:
            follower.kill()
    measured("seconds until a pod of `bash -c ditask` is gone", f"{seconds:.1f}")
    assert "main was told to end" in log
    assert seconds < GRACE / 2


def test_an_image_with_an_entry_point_and_no_command_runs(space: Space, tmp_path: Path) -> None:
    """C8: the operator does not know the image's program, which uses the variables itself."""
    source = archive("light")
    space.cluster.load([with_entry_point(source, tmp_path / "entry.tar", ENTRY, ["light-peer"])])
    space.apply(job("entry", {"image": ENTRY, "args": ["--forever"]}))
    space.until_true("entry", "Running")
    until_edges(space, "entry", mesh(space.ips("entry"), 1), PORTS)
    main = space.pods("entry")[0]["spec"]["containers"][0]
    assert "command" not in main
    assert main["args"] == ["--forever"]
    space.until_true("entry", "LauncherBypassed")
    assert "set `command` to the program" in space.condition("entry", "LauncherBypassed")["message"]
    space.until("PeersReady says so", lambda: not_bypassed(space), 60)


def not_bypassed(space: Space) -> str:
    ready = space.condition("entry", "PeersReady")
    return "" if ready["reason"] == "LauncherBypassed" else str(ready)


def test_a_peer_that_cannot_be_reached_is_named_by_its_rank(space: Space) -> None:
    lost = real("lost", ["/bin/bash", "-c", UNREACHABLE], backoffLimit=1)
    space.apply(code(), lost)
    space.until_true("lost", "Failed", REAL_SECONDS)
    first = space.status("lost")["firstFailure"]
    assert first["rank"] == 1
    assert "rank 1 cannot reach rank 0 (" in first["message"]
    assert ".254: " in first["message"]
    assert "rank 1 cannot reach rank 0 (" in space.condition("lost", "Failed")["message"]
    assert "cannot reach rank 0 (" in space.logs("lost-1")
