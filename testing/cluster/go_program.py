"""Builds single Go programs, each from a module in a folder of this repository."""

import hashlib
import tempfile
from pathlib import Path

from cluster.build import cache, find_go, go_environment, one_at_a_time
from cluster.shell import Progress, run

BUILD_SECONDS = 900
KWOK_SECONDS = 150  # on 2 cores with an empty Go cache


def kwok(progress: Progress) -> Path:
    """Return the path of kwok; build kwok if it is missing. Only control planes with simulated
    nodes need kwok. It shares no package with the programs of cluster/bin, because it uses an older
    Kubernetes.
    """
    sources, package = Path(__file__).parent / "kwok", "sigs.k8s.io/kwok/cmd/kwok"
    if not program_path(sources, "kwok").exists():
        progress.expected += KWOK_SECONDS
        progress.say(f"building kwok (about {KWOK_SECONDS} s if Go's cache does not contain it)")
    return build_program(sources, "kwok", package=package)


def program_path(sources: Path, name: str, uses: Path | None = None) -> Path:
    """Return the path of the program for these sources, even if it has not been built."""
    digest = hashlib.sha256()
    for source in sorted([*sources.iterdir(), *(uses.rglob("*") if uses else ())]):
        if source.suffix in (".go", ".mod", ".sum"):
            digest.update(source.read_bytes())
    return cache() / f"{name}-{digest.hexdigest()[:12]}"


def build_program(sources: Path, name: str, uses: Path | None = None, package: str = ".") -> Path:
    """Return the program. It is rebuilt only if its sources, or the module in this repository that
    it uses, have changed. By default, it is built from the package in the folder `sources`.
    """
    program = program_path(sources, name, uses)
    with one_at_a_time(cache() / f"{name}.lock"):
        if not program.exists():
            go = find_go(Progress(BUILD_SECONDS))
            with tempfile.TemporaryDirectory(prefix="building-", dir=cache()) as scratch:
                made = Path(scratch) / name
                command = [go, "-C", str(sources), "build", "-trimpath", "-ldflags=-s -w"]
                argv = [*command, "-o", str(made), package]
                run(argv, env=go_environment(), timeout=BUILD_SECONDS)
                made.rename(program)
    return program
