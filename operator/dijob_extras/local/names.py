"""Makes the names of ranks resolvable on this machine.

With `addressing: Hostname`, programs address each other by name. The programs get a private
/etc/hosts in a mount namespace, so that the machine's own file is not changed.
"""

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
# The shell replaces itself with the program, so that signals reach the program directly.
_ENTER: Final = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'


def hosts_lines(gang: Gang, addresses: Sequence[str]) -> list[str]:
    """Return the lines for /etc/hosts: each rank's address, its short name, and its name in peer
    lists.
    """
    return [
        f"{address} {gang.member(rank).name} {gang.member(rank).name}.{gang.job}"
        for rank, address in enumerate(addresses)
    ]


def resolver_prefix(gang: Gang, addresses: Sequence[str], work: Path) -> tuple[str, ...]:
    """Return the words to put before a command so that it can resolve the names.

    The result is empty if the names already resolve. Raises CliError (USAGE) if the user is not
    allowed to create a mount namespace.
    """
    wanted = hosts_lines(gang, addresses)
    if all(_is_resolved(line.split()) for line in wanted):
        return ()
    file = work / "hosts"
    before = _HOSTS.read_text() if _HOSTS.is_file() else ""
    file.write_text("\n".join([before.rstrip("\n"), *wanted, ""]))
    unshare = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    words = (*unshare, "sh", "-c", _ENTER, "sh", str(file))
    # A trial is the only reliable check: distributions restrict user namespaces in many ways.
    if shutil.which("unshare") and _is_successful((*words, "true")):
        return words
    raise CliError(
        "the ranks of this job address each other by name, and you are not allowed to create a"
        f" private /etc/hosts for them: add these lines to /etc/hosts: {'; '.join(wanted)}",
        Exit.USAGE,
    )


def _is_resolved(words: list[str]) -> bool:
    address, *names = words
    try:
        return all(socket.gethostbyname(name) == address for name in names)
    except OSError:
        return False


def _is_successful(words: Sequence[str]) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
