"""`make images-load`: loads image archives into the nodes of a cluster, without a registry.

For kind, it uses kind's own command. For other nodes, it runs containerd's `ctr` on the node,
through ssh or another command. `ctr` reads the archive from its standard input.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catalogue import IMAGES, archive
from steps import BuildError, say

# The images that the chart and the examples need.
NEEDED = ("operator", "launcher", "ditask")


@dataclass(frozen=True)
class Where:
    """The nodes: a kind cluster, hosts for ssh, or commands that enter a node."""

    kind: str = ""
    hosts: tuple[str, ...] = ()
    enter: tuple[str, ...] = ()
    # The ctr command on the node, with sudo if needed, for example "sudo k3s ctr".
    ctr: str = "ctr"


@dataclass(frozen=True)
class Import:
    """One command, and the archive that it reads from its standard input, if any."""

    argv: tuple[str, ...]
    stdin: Path | None = None


def imports(where: Where, archives: Sequence[Path]) -> list[Import]:
    """Return the commands that load each archive into each node. Raise BuildError if no node is
    named.
    """
    if where.kind:
        kind = ("kind", "load", "image-archive")
        return [Import((*kind, str(each), f"--name={where.kind}")) for each in archives]
    ctr = (*shlex.split(where.ctr), "--namespace=k8s.io", "images", "import", "-")
    # ssh passes its arguments to a shell, so they are quoted.
    nodes: list[tuple[str, ...]] = [("ssh", host, shlex.join(ctr)) for host in where.hosts]
    nodes += [(*shlex.split(each), *ctr) for each in where.enter]
    if not nodes:
        raise BuildError(
            "no nodes are given: use KIND=NAME for a kind cluster, NODES='HOST HOST' for hosts with"
            " ssh, or ENTER='COMMAND' for a command that runs commands on a node"
        )
    return [Import(node, each) for each in archives for node in nodes]


def load(one: Import) -> None:
    """Run the command. If it fails, raise BuildError with the end of its output."""
    try:
        with (one.stdin or Path("/dev/null")).open("rb") as stdin:
            done = subprocess.run(one.argv, stdin=stdin, capture_output=True, check=False)
    except OSError as error:
        raise BuildError(f"{error.filename}: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()[-600:]
        raise BuildError(f"{shlex.join(one.argv)} failed ({done.returncode}): {said}")


def parsed(argv: Sequence[str]) -> tuple[Where, list[Path]]:
    """Parse the command line. Raise BuildError if an image is unknown or not built."""
    parser = argparse.ArgumentParser(prog="python3 images/load.py", description=__doc__)
    parser.add_argument("--kind", default="", metavar="NAME", help="a kind cluster")
    parser.add_argument("--node", action="append", default=[], metavar="HOST", help="through ssh")
    parser.add_argument("--enter", action="append", default=[], metavar="COMMAND")
    parser.add_argument(
        "--ctr", default="ctr", metavar="COMMAND", help="for example 'sudo k3s ctr'"
    )
    parser.add_argument("--file", action="append", default=[], type=Path, help="an archive")
    parser.add_argument("images", nargs="*", metavar="IMAGE", help=f"one of {', '.join(IMAGES)}")
    given = parser.parse_args(argv)
    if unknown := set(given.images) - IMAGES.keys():
        raise BuildError(f"unknown image {', '.join(sorted(unknown))}; known: {', '.join(IMAGES)}")
    names = given.images or ([] if given.file else NEEDED)
    archives = [*given.file, *map(archive, names)]
    if missing := [str(each) for each in archives if not each.is_file()]:
        raise BuildError(f"{missing[0]} does not exist; `make images` builds the project's images")
    return Where(given.kind, tuple(given.node), tuple(given.enter), given.ctr), archives


def main() -> int:
    """Print one message and return exit code 1 on an error."""
    try:
        where, archives = parsed(sys.argv[1:])
        for one in imports(where, archives):
            started = time.monotonic()
            load(one)
            name = Path(one.stdin or one.argv[3]).name
            say(f"{name}: {shlex.join(one.argv[:3])} ... in {time.monotonic() - started:.0f} s")
    except BuildError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
