"""Runs the launcher's programs as a container would: a folder with them, an environment,
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

# What runs a user's command where it is a line of shell: Debian's sh, that of Red Hat and SUSE,
# Alpine's.
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}
MARK = "DIJOB_TEST_RUN"
# The tests start namespaces: as root, or as the root of a user namespace.
UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"])]
PID_NAMESPACE = [*UNSHARE, "--pid", "--fork", "--mount-proc"]
NET_NAMESPACE = [*UNSHARE, "--net"]
# A network in which nobody answers (what comes by the loopback device for others is dropped): a
# command of the shell.
FARAWAY = "ip link set lo up; ip addr add 10.9.9.1/32 dev lo; ip route add 10.9.9.0/24 dev lo; "
# A command before another one: the pod's /proc cannot be read.
WITHOUT_PROC = [
    *(*UNSHARE, "--mount", "sh", "-c"),
    *('mount -t tmpfs none /proc && exec "$@"', "sh"),
]
ENTER = ["/usr/bin/nsenter", *([] if os.geteuid() == 0 else ["--user", "--preserve-credentials"])]


def missing(what: str) -> NoReturn:
    """Skip the test, for want of something that this machine lacks; in CI (.ci/run) it fails."""
    if os.environ.get("DIJOB_SKIP_NOTHING"):
        pytest.fail(f"missing: {what}")
    pytest.skip(f"missing: {what}")


def program(name: str) -> str:
    """Path of a program of this machine; the test is skipped where it is missing."""
    return shutil.which(name) or missing(f"{name} (make tools)")


@cache
def may_unshare() -> bool:
    """Whether this user may start namespaces: some systems let only root do so."""
    return (
        subprocess.run([*PID_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    )


def shown(number: str, ips: str, renew_from: str = "", **more: str) -> str:
    """The pod's annotations as the kubelet writes them to a file (Kubernetes' pkg/fieldpath:
    FormatMap), with one of the user's own among them. `more` have hyphens for underscores.
    """
    ours = {"list-number": number, "node-ips": ips, "renew-from": renew_from}
    ours |= {name.replace("_", "-"): text for name, text in more.items()}
    all_ = {"team/note": 'he said "a=b"\n'}
    all_ |= {f"{names.GROUP}/{name}": text for name, text in ours.items() if text}
    return "".join(f"{key}={json.dumps(text)}\n" for key, text in sorted(all_.items()))


@dataclass
class Box:
    """A folder with /run/dijob's in it, and the environment of a container."""

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
        """Starts `command`; stderr goes to the file `err`, stdin and stdout are pipes."""
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
        """Runs `command` to its end: exit code, stdout, stderr. The pipes close only when nobody
        holds them.
        """
        process = self.start(command, **env)
        out, _ = process.communicate(stdin, timeout=20)
        return process.returncode, out, self.err()

    def err(self) -> str:
        """What went to stderr so far."""
        return (self.path / "err").read_text()

    def shows(self, number: str, ips: str, renew_from: str = "", **more: str) -> None:
        """Write the pod's file as a kubelet does: in a new folder each time, and one link that is
        moved to it.
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
        """topology.json as it is now."""
        found: dict[str, Any] = json.loads((self.path / "topology.json").read_text())
        return found

    def pipe(self) -> Path:
        """Put a pipe in the place of the pod's file: who reads it waits for `processes.answer`."""
        new = self.path / "new-pipe"
        os.mkfifo(new)
        (self.path / "pod").mkdir(exist_ok=True)
        return new.rename(self.path / "pod/annotations")

    def said_last(self) -> str:
        """The termination message, "" where there is none."""
        file = self.path / "said-last"
        return file.read_text() if file.exists() else ""

    def script(self, name: str, text: str) -> Path:
        """An executable file below the box. Renamed into place: one that runs just then cannot be
        written to.
        """
        file = self.path / name
        file.parent.mkdir(exist_ok=True, parents=True)
        new = file.with_name(f".{file.name}.new")
        new.write_text(text)
        new.chmod(0o755)
        return new.rename(file)

    def alive(self) -> dict[int, str]:
        """The processes that descend from this box's runs (they inherit its mark)."""
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


# The seed's own command, what a mesh adds to it, and a job of three ranks on the loopback device.
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
    """What the image's ditask was told, and what was said on the way."""
    rc, out, err = box.run([box.ditask, *args], **env)
    assert rc == 0, err
    return arguments(out), err


def arguments(out: str) -> list[str]:
    """What the image's ditask wrote: each argument, ended by a NUL."""
    return out.split("\0")[:-1]
