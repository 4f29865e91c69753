"""Builds small Go programs of this repository that consist of one folder."""

import hashlib
import os
import tempfile
from pathlib import Path

from cluster.build import cache, find_go, one_at_a_time
from cluster.shell import Progress, run

BUILD_SECONDS = 900


def build_program(sources: Path, name: str, uses: Path | None = None) -> Path:
    """Return the program, which is built once per content of its sources and of the module in this
    repository that it uses.
    """
    digest = hashlib.sha256()
    for source in sorted([*sources.iterdir(), *(uses.rglob("*") if uses else ())]):
        if source.suffix in (".go", ".mod", ".sum"):
            digest.update(source.read_bytes())
    program = cache() / f"{name}-{digest.hexdigest()[:12]}"
    with one_at_a_time(cache() / f"{name}.lock"):
        if not program.exists():
            go = find_go(Progress(BUILD_SECONDS))
            flags = "-mod=readonly -buildvcs=false"
            env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOTOOLCHAIN": "local"}
            with tempfile.TemporaryDirectory(prefix="building-", dir=cache()) as scratch:
                made = Path(scratch) / name
                command = [go, "-C", str(sources), "build", "-trimpath", "-ldflags=-s -w"]
                run([*command, "-o", str(made), "."], env=env, timeout=BUILD_SECONDS)
                made.rename(program)
    return program
