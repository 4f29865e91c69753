"""`kubectl dijob doctor --stacks` with real pods: which rank blocks which, or why it is unknown."""

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from asked import asked
from dijob.names import GROUP
from dijob_extras.stacks.container import NAME
from jobs import config_map, job, mounted
from space import Body, Space
from users import write_kubeconfig

pytestmark = pytest.mark.e2e

# Rank 0 waits for an event of rank 1, which sleeps, and has a child that waits for its input.
PROGRAM = """
import os, socket, subprocess, sys, time
rank, nodes = int(os.environ["DI_RANK"]), os.environ["DI_NODES"].split(",")

def hear(link):
    link.recv(1)

def nap():
    time.sleep(3600)

def idle():
    sys.stdin.read()

def dial():
    while True:
        try:
            return socket.create_connection((nodes[0], 50515))
        except OSError:
            time.sleep(0.1)

if "idle" in sys.argv:
    idle()
if rank == 0:
    hear(socket.create_server((nodes[0], 50515)).accept()[0])
child = subprocess.Popen([sys.executable, __file__, "idle"], stdin=subprocess.PIPE)
link = dial()
nap()
"""
EDITOR = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: editor}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: editor}]
"""
# The container does not run as root, as many namespaces require.
PLAIN = {"securityContext": {"runAsUser": 1000, "runAsNonRoot": True}}


def stuck(name: str) -> list[Body]:
    mount, volume = mounted(f"{name}-code", "/code")
    main = {"command": ["python3", "/code/main.py"], **mount}
    return [config_map(f"{name}-code", main_py=PROGRAM), job(name, main, pod={**volume, **PLAIN})]


@pytest.fixture(scope="module")
def space(open_space: Callable[[str], AbstractContextManager[Space]]) -> Iterator[Space]:
    """Yield a space with a job that hangs, for all tests."""
    with open_space("stacks") as space:
        space.apply(*stuck("stuck"))
        space.until_true("stuck", "Running")
        yield space


def found(space: Space, *more: str) -> dict[str, str]:
    """Return the position of each process by rank and innermost own function."""
    code, told = asked(space, "doctor", "stuck", "--stacks", "-o", "json", *more)
    data, _, note = told.rpartition("}\n")
    assert code in (0, 1), told
    assert f"the terminated container {NAME}-" in note
    groups = json.loads(data + "}")["stacks"]["groups"]
    ranks = ("+".join(str(one["rank"]) for one in group["processes"]) for group in groups)
    return {
        rank + group["where"].split(" (")[0]: group["where"]
        for rank, group in zip(ranks, groups, strict=True)
    }


def missing(space: Space) -> str:
    """Return a probe: "" when the programs have reached their final position."""
    seen = found(space)
    wanted = {"0waits for a socket in hear", "1sleeps in nap", "1waits for a pipe in idle"}
    return "" if set(seen) == wanted else str(seen)


def test_ranks_are_grouped_by_position(space: Space) -> None:
    space.until("stacks", partial(missing, space), 180)
    restarts = space.status("stuck").get("restarts", 0)
    code, told = asked(space, "doctor", "stuck", "--stacks")
    assert "rank 0: waits for a socket in hear (main.py:6)" in told, (code, told)
    assert "rank 1 (process " in told, told
    # The programs and the operator are not affected.
    assert (space.status("stuck").get("restarts", 0), restarts) == (0, 0)
    space.until_true("stuck", "Running", 5)


SIGNAL = """
import glob, os, sys
for name in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        words = open(name, "rb").read().split(b"\\0")
    except OSError:
        continue  # the process has ended
    # The launcher has the program's arguments, too.
    if b"python" in words[0] and b"/code/main.py" in words:
        pid = int(name.split("/")[2])
        os.kill(pid, int(sys.argv[1]))
        print(pid)
"""


def signalled(space: Space, number: int) -> list[str]:
    """Send a signal to the programs of rank 1, and return their process IDs."""
    return space.execute("stuck-1", "python3", "-c", SIGNAL, str(number)).split()


def test_stopped_processes_are_a_problem_and_rank_0_is_not_suspected(space: Space) -> None:
    """Regression test for the report P8."""
    space.until("stacks", partial(missing, space), 180)
    pids = sorted(map(int, signalled(space, signal.SIGSTOP)))
    try:
        code, told = asked(space, "doctor", "stuck", "--stacks")
    finally:
        signalled(space, signal.SIGCONT)
    assert code == 1, told
    assert f"processes {pids[0]} and {pids[1]} are stopped (state T) in nap (main.py:" in told, told
    assert f"kill -CONT {pids[0]} {pids[1]}" in told, told
    assert "may be waiting for" not in told, told
    assert "Failed to get stack traces" not in told, told


def test_missing_stacks_are_explained(space: Space, tmp_path: Path) -> None:
    absent = "127.0.0.1:9/absent:1"
    # containerd retries for 15 s.
    with ThreadPoolExecutor(1) as beside:
        pulled = beside.submit(asked, space, "doctor", "stuck", "--stacks-image", absent)
        told_to_who_may_not(space, tmp_path / "kubeconfig")
    code, told = pulled.result()
    assert f"cannot pull the image {absent}" in told, (code, told)
    assert "--stacks-image" in told

    level = "pod-security.kubernetes.io/enforce=baseline"
    space.kubectl("label", "namespace", space.name, level, "--overwrite")

    def allowed() -> str:
        _, told = asked(space, "doctor", "stuck", "--stacks")
        return "" if "forbids containers with SYS_PTRACE" in told else told

    # The API server checks pods against a cached copy of the namespace.
    space.until("the level applies", allowed, 60)


def told_to_who_may_not(space: Space, config: Path) -> None:
    """Check the message for a user with the built-in role edit, which cannot add containers."""
    space.kubectl("apply", "-f", "-", stdin=EDITOR)
    user = f"--as=system:serviceaccount:{space.name}:editor"

    def problem() -> str:
        said = space.kubectl("auth", "can-i", "--list", user)
        return "" if f"dijobs.{GROUP}" in said else said

    space.until("the role applies", problem, 30)
    write_kubeconfig(space.kubectl, space.kubectl("create", "token", "editor"), config)
    _, told = asked(space, "doctor", "stuck", "--stacks", kubeconfig=str(config))
    assert "ask for permission to patch pods/ephemeralcontainers" in told, told
