"""Builds the static launcher of images/launcher, once for each version of its sources."""

import hashlib
import subprocess
from pathlib import Path

from cluster.build import cache, find_go, go_environment, one_at_a_time
from cluster.shell import Progress

SOURCES = Path(__file__).parents[2] / "images/launcher"
STACKS = SOURCES.parent / "stacks"


def go(*arguments: str, sources: Path = SOURCES) -> subprocess.CompletedProcess[str]:
    """Run Go in the directory of the launcher's sources, or of other sources."""
    return subprocess.run(
        [find_go(Progress(10)), *arguments],
        cwd=sources,
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def launcher() -> Path:
    """Return the path of the program. Builds it if the cache does not have it, which takes some
    seconds, or half a minute if Go has never compiled its standard library on this machine.
    """
    digest = hashlib.sha256()
    sources = (p for p in SOURCES.rglob("*.go") if not p.name.endswith("_test.go"))
    for path in sorted([*sources, SOURCES / "go.mod"]):
        digest.update(str(path.relative_to(SOURCES)).encode() + b"\0" + path.read_bytes())
    program = cache() / f"launcher-{digest.hexdigest()[:12]}/launcher"
    with one_at_a_time(cache() / "launcher.lock"):
        if not program.exists():
            new = program.with_suffix(".new")
            # In the image, the runtime hook is next to the program (images/launcher/rootfs.sh).
            (program.parent / "python").mkdir(parents=True, exist_ok=True)
            done = go("build", "-trimpath", "-ldflags=-s -w", "-o", str(new), ".")
            assert done.returncode == 0, done.stdout + done.stderr
            new.rename(program)
    return program
