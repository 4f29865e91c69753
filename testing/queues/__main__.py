"""Runs the scenarios on the real Kueue: python -m queues KUEUE_SOURCE [--binary FILE] [NAME ...].

Each scenario prints one line. The exit code is 1 if one of them failed. NAME is part of a
scenario's name.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from planes import ROOT, control_plane
from workers import own

from queues.controller import KueueProcess
from queues.scenarios import SCENARIOS, Scenario
from queues.stage import Stage, queue_objects

NODES = 6
DIRTY = "-dirty"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob/kueue"


def build(source: Path) -> Path:
    """Build Kueue from its vendored source, and return the program (7 minutes on two cores). A
    program that was built from the same commit is reused if the checkout has no changes.
    """
    version = version_of(source)
    binary = CACHE / version / "kueue"
    if binary.exists() and not version.endswith(DIRTY):
        return binary
    print(f"building Kueue {version} in {source} (about 7 minutes)", flush=True)
    binary.parent.mkdir(parents=True, exist_ok=True)
    # An interrupted build must not leave a file that looks like the finished program.
    new = binary.with_suffix(".new")
    argv = [find_go(), "build", "-mod=vendor", "-o", str(new), "./cmd/kueue"]
    subprocess.run(argv, cwd=source, check=True)
    new.replace(binary)
    return binary


def find_go() -> str:
    """Return the path of Go; install Go if it is missing."""
    argv = [sys.executable, str(ROOT / "images/golang.py")]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def version_of(source: Path) -> str:
    """Return the version of the checkout; it ends in -dirty if files have changed."""
    argv = ["git", "-C", str(source), "describe", "--tags", "--always", f"--dirty={DIRTY}"]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def run_one(scenario: Scenario, stage: Stage) -> bool:
    """Run one scenario, and print its line. Return whether it succeeded."""
    begin = time.monotonic()
    try:
        # The previous scenario may have failed after it had killed a process.
        if scenario.settings or stage.kueue.process is None:
            stage.kueue.kill()
            stage.kueue.start(**dict(scenario.settings))
        stage.start_operator()
        result, good = scenario.run(stage), True
    # A failed scenario must not prevent the others from running: its line shows the error.
    except Exception as error:
        result, good = f"{type(error).__name__}: {error}", False
    seconds = time.monotonic() - begin
    print(f"[{seconds:.0f} s] {'ok' if good else 'FAILED'}: {scenario.name}: {result}", flush=True)
    stage.clear()
    return good


def main() -> int:
    """Run the chosen scenarios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--binary", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_intermixed_args()
    if not (given.source / "cmd/kueue").is_dir():
        parser.error(f"{given.source} is not a checkout of Kueue: it has no folder cmd/kueue")
    binary = given.binary or build(given.source)
    chosen = [
        one for one in SCENARIOS if not given.names or any(part in one.name for part in given.names)
    ]
    print(f"Kueue {version_of(given.source)}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="dijob-kueue-") as made,
        control_plane(own("kueue"), nodes=NODES) as cluster,
    ):
        folder = Path(made)
        kueue = KueueProcess(cluster, given.source, binary, folder)
        stage = Stage(cluster, kueue, folder)
        try:
            kueue.install()
            stage.apply(*queue_objects())
            results = [run_one(one, stage) for one in chosen]
        finally:
            stage.kill_operator()
            kueue.kill()
    print(f"{sum(results)} of {len(results)} scenarios succeeded")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
