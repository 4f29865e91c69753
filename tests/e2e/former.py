"""The newest release, from which upgrades start (docs/install.md)."""

import re
import subprocess
from pathlib import Path

from archives import ROOT
from pod.boxes import missing

VERSION, COMMIT = re.findall(
    r"^\| ([0-9.]+) \| [0-9-]+ \| ([0-9a-f]{12}) \|",
    (ROOT / "docs/install.md").read_text(),
    re.MULTILINE,
)[-1]


def unpack(folder: Path) -> None:
    """Write the sources of the release from the repository's history to a folder."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", COMMIT], capture_output=True, check=False
    )
    if packed.returncode != 0:
        missing(f"commit {COMMIT} (git fetch --unshallow): {packed.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
