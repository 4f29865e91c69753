"""Runs the launcher's programs as in a container: with their directory, an environment and
namespaces.
"""

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest
from dijob import names

# The shells for commands that are one line of shell: sh of Debian, of Red Hat and SUSE, and of
# Alpine.
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}
MARK = "DIJOB_TEST_RUN"
# The tests create namespaces, as root or as root of a user namespace.
UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"])]
PID_NAMESPACE = [*UNSHARE, "--pid", "--fork", "--mount-proc"]
NET_NAMESPACE = [*UNSHARE, "--net"]
# A shell command that sets up a network in which no host answers: packets to other hosts are routed
# to the loopback device and dropped.
FARAWAY = "ip link set lo up; ip addr add 10.9.9.1/32 dev lo; ip route add 10.9.9.0/24 dev lo; "
# A prefix for commands, with which they cannot read /proc.
WITHOUT_PROC = [
    *(*UNSHARE, "--mount", "sh", "-c"),
    *('mount -t tmpfs none /proc && exec "$@"', "sh"),
]
ENTER = ["/usr/bin/nsenter", *([] if os.geteuid() == 0 else ["--user", "--preserve-credentials"])]


def missing(what: str) -> NoReturn:
    """Skip the test because this machine lacks something. In CI (.ci/run) it fails instead."""
    if os.environ.get("DIJOB_SKIP_NOTHING"):
        pytest.fail(f"missing: {what}")
    pytest.skip(f"missing: {what}")


def program(name: str) -> str:
    """Return the path of a program of this machine. Skips the test if it is missing."""
    return shutil.which(name) or missing(f"{name} (make tools)")


@cache
def may_unshare() -> bool:
    """Whether this user may create namespaces. On some systems only root may."""
    return (
        subprocess.run([*PID_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    )


def shown(number: str, ips: str, renew_from: str = "", **more: str) -> str:
    """Return the pod's annotations as the kubelet writes them to a file (Kubernetes' pkg/fieldpath:
    FormatMap), including one of the user. Underscores in the names of `more` become hyphens.
    """
    ours = {"list-number": number, "node-ips": ips, "renew-from": renew_from}
    ours |= {name.replace("_", "-"): text for name, text in more.items()}
    all_ = {"team/note": 'he said "a=b"\n'}
    all_ |= {f"{names.GROUP}/{name}": text for name, text in ours.items() if text}
    return "".join(f"{key}={json.dumps(text)}\n" for key, text in sorted(all_.items()))


@dataclass
class Box:
    """A directory with the content of /run/dijob, and the environment of a container."""

    path: Path
    env: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def bin(self) -> Path:
        return self.path / "bin"

    @property
    def launch(self) -> str:
        return str(self.bin / "launch")

    @property
    def ditask(self) -> str:
        return str(self.bin / "path/ditask")

    def start(self, command: list[str], **env: str) -> subprocess.Popen[str]:
        """Start `command`. stderr is the file `err`; stdin and stdout are pipes."""
        if command[0] == UNSHARE[0] and not may_unshare():
            missing("the right to start namespaces (root has it)")
        with (self.path / "err").open("w") as err:
            process = subprocess.Popen(
                command,
                env=self.env | env,
                cwd=self.path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )
        self.started.append(process)
        return process

    def run(self, command: list[str], stdin: str = "", **env: str) -> tuple[int, str, str]:
        """Run `command` to its end, and return its exit code, stdout and stderr. It returns only
        when no process holds the pipes.
        """
        process = self.start(command, **env)
        out, _ = process.communicate(stdin, timeout=60)
        return process.returncode, out, self.err()

    def err(self) -> str:
        """Return what has been written to stderr so far."""
        return (self.path / "err").read_text()

    def shows(self, number: str, ips: str, renew_from: str = "", **more: str) -> None:
        """Write the annotations file like a kubelet: into a new directory, to which a link is then
        moved.
        """
        pod = self.path / "pod"
        pod.mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="..", dir=pod))
        (folder / "annotations").write_text(shown(number, ips, renew_from, **more))
        if not (pod / "annotations").is_symlink():
            (pod / "annotations").symlink_to("..data/annotations")
        (pod / "..data_tmp").symlink_to(folder.name)
        (pod / "..data_tmp").rename(pod / "..data")

    def topology(self) -> dict[str, Any]:
        """Return the current content of topology.json."""
        found: dict[str, Any] = json.loads((self.path / "topology.json").read_text())
        return found

    def pipe(self) -> Path:
        """Replace the annotations file with a pipe. A reader then blocks until `processes.answer`
        writes.
        """
        new = self.path / "new-pipe"
        os.mkfifo(new)
        (self.path / "pod").mkdir(exist_ok=True)
        return new.rename(self.path / "pod/annotations")

    def said_last(self) -> str:
        """Return the termination message; "" if there is none."""
        file = self.path / "said-last"
        return file.read_text() if file.exists() else ""

    def script(self, name: str, text: str) -> Path:
        """Create an executable file in the box. It is renamed into place, because a program that is
        running cannot be written to.
        """
        file = self.path / name
        file.parent.mkdir(exist_ok=True, parents=True)
        new = file.with_name(f".{file.name}.new")
        new.write_text(text)
        new.chmod(0o755)
        return new.rename(file)

    def alive(self) -> dict[int, str]:
        """Return the processes that this box has started and their descendants, which inherit its
        mark.
        """
        mark = f"{MARK}={self.env[MARK]}".encode()
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with (
                    open(f"/proc/{pid}/environ", "rb") as environ,
                    open(f"/proc/{pid}/cmdline") as cmdline,
                ):
                    if mark in environ.read():
                        found[int(pid)] = cmdline.read().replace("\0", " ")
            except OSError:
                continue
        return found


# The seed's own command, the options that a mesh adds to it, and a job of three ranks on the
# loopback device.
SEED = ["--package", "my_module", "--main", "my_module.main", "--parallel-workers", "2"]
WORLD = ["--platform", "k8s", "--topology", "mesh"]
ALONE = ["--parallel-workers", "1"]
JOB = {
    "DI_NODES": "127.0.0.1,127.0.0.2,127.0.0.3",
    "DI_RANK": "0",
    "DI_NODE_IDS": "0",
    "DI_PARALLEL_WORKERS": "1",
    "DI_TOPOLOGY": "mesh",
}


def told(box: Box, args: list[str], **env: str) -> tuple[list[str], str]:
    """Return the arguments that the image's ditask got, and what was logged."""
    rc, out, err = box.run([box.ditask, *args], **env)
    assert rc == 0, err
    return arguments(out), err


def arguments(out: str) -> list[str]:
    """Parse the output of the image's ditask: its arguments, each terminated by NUL."""
    return out.split("\0")[:-1]
