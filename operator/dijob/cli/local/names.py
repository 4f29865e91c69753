"""Names of ranks on this machine: programs that know each other by names find them in an /etc/hosts
of their own, in a mount namespace."""

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dijob.cli.errors import CliError, Exit
from dijob.core.members import Gang

_HOSTS: Final = Path("/etc/hosts")
_ENTER: Final = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'


def lines(gang: Gang, addresses: Sequence[str]) -> list[str]:
    """The lines of /etc/hosts: each rank by its name, and by the one that its list has."""
    return [
        f"{address} {gang.member(rank).name} {gang.member(rank).name}.{gang.job}"
        for rank, address in enumerate(addresses)
    ]


def prefix(gang: Gang, addresses: Sequence[str], work: Path) -> tuple[str, ...]:
    """The words before a command that let it find these names. () where this machine has them
    already; CliError (USAGE) where it has not, and may not be told."""
    wanted = lines(gang, addresses)
    if all(_resolves(line.split()) for line in wanted):
        return ()
    file = work / "hosts"
    before = _HOSTS.read_text() if _HOSTS.is_file() else ""
    file.write_text("\n".join([before.rstrip("\n"), *wanted, ""]))
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    words = (*unshare, "sh", "-c", _ENTER, "sh", str(file))
    if shutil.which("unshare") and _works((*words, "true")):
        return words
    raise CliError(
        "the ranks of this job know each other by their names, and this user may not give them an"
        f" /etc/hosts of their own: add these lines to yours: {'; '.join(wanted)}.",
        Exit.USAGE,
    )


def _resolves(words: list[str]) -> bool:
    address, *names = words
    try:
        return all(socket.gethostbyname(name) == address for name in names)
    except OSError:
        return False


def _works(words: Sequence[str]) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
