"""Builds Vale from its Go module, once per content of this folder's Go files."""

import hashlib
import shutil
import tempfile
from pathlib import Path

from cluster.build import cache, find_go, go_environment, one_at_a_time
from cluster.shell import Progress, run

HERE = Path(__file__).parent
MODULE = "github.com/errata-ai/vale/v3"
BUILD_SECONDS = 600
# Vale's package that parses source code, and this folder's replacement.
PARSER = f"vendor/{MODULE}/internal/lint/code"
REPLACEMENT = "code.go.in"


def vale() -> Path:
    """Return the program, which is built if the cache does not contain it."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", REPLACEMENT):
        digest.update((HERE / name).read_bytes())
    program = cache() / f"vale-{digest.hexdigest()[:12]}"
    if program.exists():
        return program
    with one_at_a_time(cache() / "vale.lock"):
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    """Build Vale without its parser.

    Go replaces a whole module, but not one of its packages. Therefore the modules are copied
    (vendored), and the copy is changed.
    """
    progress = Progress(BUILD_SECONDS)
    progress.say("building Vale, which checks the prose (about 40 s)")
    go = find_go(progress)
    with tempfile.TemporaryDirectory(prefix="building-", dir=program.parent) as scratch:
        work = Path(scratch)
        for name in ("go.mod", "go.sum"):
            shutil.copy(HERE / name, work / name)
        run([go, "-C", scratch, "mod", "vendor"], env=go_environment(), timeout=BUILD_SECONDS)
        shutil.rmtree(work / PARSER)
        (work / PARSER).mkdir()
        shutil.copy(HERE / REPLACEMENT, work / PARSER / "code.go")
        compile_ = [go, "-C", scratch, "build", "-trimpath", "-ldflags=-s -w", "-o", "vale"]
        run([*compile_, f"{MODULE}/cmd/vale"], env=go_environment("vendor"), timeout=BUILD_SECONDS)
        (work / "vale").rename(program)
