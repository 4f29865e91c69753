"""What a pod's kernel knows of TCP connections and of the processes that hold them, and how many
processes the program says that it has. Pure but for the programs, which run in the pod.
"""

import ipaddress
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob.names import MAX_WORKERS

# The last table is written by images/dijob-runtime (parallel.py) if DI-engine runs there.
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6", "/run/dijob/workers")
# Python where there is one, else a shell with cat and ls, else cat alone (which does not tell the
# processes of a pod apart). All print the tables, then what is open in each process.
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
_LISTENS: Final = "0A"
# The kernel doubles its patience each time: this many are some 3 s without an answer.
SILENT_AFTER: Final = 4


@dataclass(frozen=True)
class Connection:
    """One established connection, as one of its ends sees it."""

    local: str
    near: int
    remote: str
    far: int
    inode: str
    unanswered: int = 0
    """How often the oldest unacknowledged bytes have been sent again."""

    @property
    def silent(self) -> bool:
        """Whether what is sent gets no answer."""
        return self.unanswered >= SILENT_AFTER


@dataclass(frozen=True)
class Sockets:
    """What a pod has: its connections, the inodes that listen on a port, the processes that hold an
    inode.
    """

    connections: tuple[Connection, ...] = ()
    listening: Mapping[int, frozenset[str]] = field(default_factory=dict)
    holders: Mapping[str, frozenset[int]] = field(default_factory=dict)
    complete: bool = False
    """Whether every process of the container has shown what it holds."""
    workers: int | None = None
    """How many of DI-engine's processes the pod has; None if its program has not said so."""

    def processes(self, inodes: frozenset[str]) -> frozenset[int]:
        """The processes that hold one of these."""
        return frozenset(pid for inode in inodes for pid in self.holders.get(inode, ()))


def read(text: str) -> Sockets:
    """What a pod has answered."""
    connections, holders = list[Connection](), dict[str, set[int]]()
    listening, pid, hidden, workers = dict[int, set[str]](), 0, False, None
    for line in text.splitlines():
        if begins := re.match(r"/proc/(\d+)/fd:", line):
            pid = int(begins[1])
        elif held := re.search(r"socket:\[(\d+)\]", line):
            holders.setdefault(held[1], set()).add(pid)
        elif said := re.fullmatch(r"parallel-workers (\d{1,3})", line, re.ASCII):
            workers = int(said[1]) if 1 <= int(said[1]) <= MAX_WORKERS else None
        elif "Permission denied" in line:
            hidden = True
        elif row := _row(line):
            state, end = row
            if state == _LISTENS:
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


def _row(line: str) -> tuple[str, Connection] | None:
    words = line.split()
    if len(words) < 10 or words[3] not in (_ESTABLISHED, _LISTENS) or not words[0].endswith(":"):
        return None
    (local, near), (remote, far) = _end(words[1]), _end(words[2])
    again = int(words[6], 16) if words[5].startswith("01:") else 0
    return words[3], Connection(local, near, remote, far, inode=words[9], unanswered=again)


def _end(text: str) -> tuple[str, int]:
    """The kernel prints an address as 32-bit words in the machine's byte order, which is taken to
    be little endian: that of amd64 and arm64.
    """
    digits, port = text.split(":")
    raw = b"".join(struct.pack("<I", int(digits[i : i + 8], 16)) for i in range(0, len(digits), 8))
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def addresses(status: Mapping[str, object]) -> Iterator[str]:
    """All addresses of a pod, in the form of `_end`."""
    given = status.get("podIPs")
    for one in given if isinstance(given, list) else ():
        yield str(ipaddress.ip_address(one["ip"]))
