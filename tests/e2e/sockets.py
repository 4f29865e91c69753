"""Reads the established TCP connections between a job's pods from /proc/net/tcp and tcp6 in the
pods.
"""

import ipaddress
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from space import Space

ESTABLISHED = "01"
# (dialing pod's address, listener's address, listener's port) -> number of connections.
Edges = Counter[tuple[str, str, int]]


def rows(table: str) -> Iterator[tuple[str, int, str, int]]:
    """Yield local address and port, remote address and port of every established connection."""
    for line in table.splitlines():
        words = line.split()
        if len(words) > 3 and words[3] == ESTABLISHED:
            yield (*_end(words[1]), *_end(words[2]))


def _end(text: str) -> tuple[str, int]:
    """Parse an address, which the kernel prints as 32-bit words in the machine's byte order."""
    digits, port = text.split(":")
    raw = b"".join(struct.pack("=I", int(digits[i : i + 8], 16)) for i in range(0, len(digits), 8))
    address = ipaddress.ip_address(raw)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def listener_side(tables: Iterable[str], ips: Sequence[str], ports: Sequence[int]) -> Edges:
    """Return the connections between the pods as the listeners see them."""
    return Counter(
        (remote, local, port)
        for table in tables
        for local, port, remote, far in rows(table)
        if port in ports and far not in ports and local in ips and remote in ips
    )


def dialler_side(tables: Iterable[str], ips: Sequence[str], ports: Sequence[int]) -> Edges:
    """Return the same connections as the dialing pods see them."""
    return Counter(
        (local, remote, port)
        for table in tables
        for local, near, remote, port in rows(table)
        if port in ports and near not in ports and local in ips and remote in ips
    )


def edges(space: Space, job: str, ports: Sequence[int]) -> tuple[Edges, Edges]:
    """Return both views of the current connections."""
    ips = space.ips(job)
    tables = [_table(space, pod["metadata"]["name"]) for pod in space.pods(job)]
    return listener_side(tables, ips, ports), dialler_side(tables, ips, ports)


def _table(space: Space, pod: str) -> str:
    return space.execute(pod, "cat", "/proc/net/tcp", "/proc/net/tcp6")


def until_edges(
    space: Space, job: str, wanted: Edges, ports: Sequence[int], seconds: float = 180
) -> float:
    """Poll until exactly the expected connections exist in three consecutive readings. Return how
    many seconds it took.
    """
    in_a_row = 0

    def problem() -> str:
        nonlocal in_a_row
        seen, dialled = edges(space, job, ports)
        in_a_row = in_a_row + 1 if seen == wanted == dialled else 0
        if in_a_row == 3:
            return ""
        return (
            f"missing {dict(wanted - seen)}, beyond {dict(seen - wanted)}, dialling ends differ:"
            f" {seen != dialled}"
        )

    return space.until(f"{wanted.total()} connections of {job}", problem, seconds)


def mesh(ips: Sequence[str], workers: int) -> Edges:
    """Return a mesh: each node dials all lower nodes. test_mesh.py compares it with DI-engine."""
    first = 50515
    nodes = [(ip, first + worker) for ip in ips for worker in range(workers)]
    return Counter(
        (dialler[0], *listener) for at, dialler in enumerate(nodes) for listener in nodes[:at]
    )


def star(ips: Sequence[str]) -> Edges:
    """Return a star of one worker per pod, as DI-engine's parser connects it: all dial rank 0."""
    return Counter({(ip, ips[0], 50515): 1 for ip in ips[1:]})
