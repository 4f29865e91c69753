"""Parses a pod's TCP tables: its connections and listeners, and the processes that hold them.

The tables of /proc/net are the same in all containers of a pod. They show which connections exist,
whereas logs show only the attempts (docs/decisions/035). Parsing is pure; the programs that print
the tables run in the pod.
"""

import ipaddress
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob.names import MAX_WORKERS

# The runtime hook (parallel.py in images/dijob-runtime) writes the last of these files, which
# contains the number of DI-engine's processes.
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6", "/run/dijob/workers")
# There is one command for each set of programs that an image may contain: Python, a shell with cat
# and ls, or only cat. All of these commands print the tables. Python and the shell also print the
# open sockets of each process. Without these, the processes of a pod cannot be distinguished. The
# Python program prints only the rows that matter, because a busy pod has thousands.
_PYTHON: Final = """
import os
for name in ("tcp", "tcp6"):
    try:
        for row in open("/proc/net/" + name):
            if row.split()[3] in ("01", "0A"):
                print(row, end="")
    except OSError:
        pass
try:
    print(open("/run/dijob/workers").read())
except OSError:
    pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        print("/proc/%s/fd:" % pid)
        for fd in os.listdir("/proc/%s/fd" % pid):
            where = os.readlink("/proc/%s/fd/%s" % (pid, fd))
            if where.startswith("socket:"):
                print(where)
    except PermissionError:
        print("Permission denied")
    except OSError:
        pass
"""
_SHELL: Final = f"cat {' '.join(_TABLES)} 2>/dev/null; ls -l /proc/[0-9]*/fd 2>&1; true"
COMMANDS: Final = (
    ("python3", "-IS", "-c", _PYTHON),
    ("sh", "-c", _SHELL),
    ("busybox", "sh", "-c", _SHELL),
    ("cat", *_TABLES),
    ("busybox", "cat", *_TABLES),
)

_ESTABLISHED: Final = "01"
_LISTEN: Final = "0A"
# The kernel doubles the timeout for each retransmission. After this many retransmissions, about 3 s
# have passed without an acknowledgement. Brief packet loss does not last this long.
SILENT_AFTER: Final = 4


@dataclass(frozen=True)
class SocketConnection:
    """An established connection, as seen from one of its ends."""

    local: str
    near: int
    remote: str
    far: int
    inode: str
    unanswered: int = 0
    """How many times the oldest unacknowledged bytes have been retransmitted."""

    @property
    def silent(self) -> bool:
        """Whether sent data remains unacknowledged, probably because the peer is unreachable."""
        return self.unanswered >= SILENT_AFTER


@dataclass(frozen=True)
class Sockets:
    """The sockets of a pod.

    `listening` maps a port to the inodes of its listeners, and `holders` maps an inode to the
    processes that have it open.
    """

    connections: tuple[SocketConnection, ...] = ()
    listening: Mapping[int, frozenset[str]] = field(default_factory=dict)
    holders: Mapping[str, frozenset[int]] = field(default_factory=dict)
    complete: bool = False
    """Whether the open sockets of every process of the container could be read."""
    workers: int | None = None
    """The number of DI-engine's processes that the runtime hook reports; None without a report."""

    def processes(self, inodes: frozenset[str]) -> frozenset[int]:
        """Return the processes that hold any of these inodes."""
        return frozenset(pid for inode in inodes for pid in self.holders.get(inode, ()))


def parse_sockets(text: str) -> Sockets:
    """Parse the output of one of COMMANDS. Raises ValueError or struct.error if it is invalid."""
    connections, holders = list[SocketConnection](), dict[str, set[int]]()
    listening, pid, hidden, workers = dict[int, set[str]](), 0, False, None
    for line in text.splitlines():
        if begins := re.match(r"/proc/(\d+)/fd:", line):
            pid = int(begins[1])
        elif held := re.search(r"socket:\[(\d+)\]", line):
            holders.setdefault(held[1], set()).add(pid)
        elif reported := re.fullmatch(r"parallel-workers (\d{1,3})", line, re.ASCII):
            workers = int(reported[1]) if 1 <= int(reported[1]) <= MAX_WORKERS else None
        elif "Permission denied" in line:
            hidden = True
        elif row := _parse_row(line):
            state, end = row
            if state == _LISTEN:
                listening.setdefault(end.near, set()).add(end.inode)
            else:
                connections.append(end)
    return Sockets(
        tuple(connections),
        {port: frozenset(inodes) for port, inodes in listening.items()},
        {inode: frozenset(pids) for inode, pids in holders.items()},
        complete=pid > 0 and not hidden,
        workers=workers,
    )


def _parse_row(line: str) -> tuple[str, SocketConnection] | None:
    words = line.split()
    if len(words) < 10 or words[3] not in (_ESTABLISHED, _LISTEN) or not words[0].endswith(":"):
        return None
    (local, near), (remote, far) = _parse_address(words[1]), _parse_address(words[2])
    again = int(words[6], 16) if words[5].startswith("01:") else 0
    return words[3], SocketConnection(local, near, remote, far, inode=words[9], unanswered=again)


def _parse_address(text: str) -> tuple[str, int]:
    """Parse an address and port.

    The kernel prints an address as 32-bit words in the byte order of the machine. Little endian is
    assumed, as on amd64 and arm64, the only platforms for which images are built.
    """
    digits, port = text.split(":")
    raw = b"".join(struct.pack("<I", int(digits[i : i + 8], 16)) for i in range(0, len(digits), 8))
    address = ipaddress.ip_address(raw)
    # A dual-stack socket shows IPv4 peers as ::ffff:a.b.c.d, while the pod's status has a.b.c.d.
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def pod_addresses(status: Mapping[str, object]) -> Iterator[str]:
    """Yield all addresses in a pod's status, in the same form as the addresses of connections."""
    given = status.get("podIPs")
    for one in given if isinstance(given, list) else ():
        yield str(ipaddress.ip_address(one["ip"]))
