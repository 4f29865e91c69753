"""Compares the expected connections with those in the pods' socket tables. No I/O.

A connection counts as up only if both ends have it, because a kernel can keep a half-open
connection for hours. If only one end can be read, that end alone decides.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dijob.cli.topology.expected import SERVER, Dials, ExpectedWorld, Listener
from dijob.cli.topology.sockets import SocketConnection, Sockets


@dataclass(frozen=True)
class ProbedPod:
    """A rank's pod: its addresses and sockets. If the sockets cannot be read, they are None, and
    `problem` gives the reason.
    """

    rank: int
    name: str
    addresses: frozenset[str] = frozenset()
    sockets: Sockets | None = None
    problem: str = ""
    task: str = ""
    ready: bool = True


@dataclass(frozen=True)
class Edge:
    """The connections from workers of a rank to one listener, and how many of them are up.

    If the processes of the pod can be distinguished, there is one edge per worker. Otherwise one
    edge covers all workers, and only the number of connections is known.
    """

    rank: int
    workers: tuple[int, ...]
    to: Listener
    up: int
    unknown: bool = False
    why: str = ""

    @property
    def wanted(self) -> int:
        """The number of expected connections."""
        return len(self.workers)

    @property
    def missing(self) -> int:
        """The number of missing connections."""
        return 0 if self.unknown else self.wanted - self.up


@dataclass(frozen=True)
class Report:
    """All edges of a job, and the pods whose socket tables were searched for them."""

    job: str
    world: ExpectedWorld
    edges: tuple[Edge, ...]
    pods: Sequence[ProbedPod] = field(default=())

    @property
    def up(self) -> int:
        """The number of connections that are up."""
        return sum(edge.up for edge in self.edges)

    @property
    def missing(self) -> int:
        """The number of connections that are known to be missing."""
        return sum(edge.missing for edge in self.edges)

    @property
    def unknown(self) -> int:
        """The number of connections whose state could not be determined from either end."""
        return sum(edge.wanted for edge in self.edges if edge.unknown)

    @property
    def whole(self) -> bool:
        """Whether every connection is known to be up."""
        return self.up == self.world.total


Found = tuple[list[SocketConnection], str]


def compare_connections(job: str, world: ExpectedWorld, pods: Iterable[ProbedPod]) -> Report:
    """Look up every expected connection in the pods' socket tables."""
    known = {pod.rank: pod for pod in pods}
    edges = [edge for dials in world.dials for edge in _compare_dials(dials, world, known)]
    return Report(job, world, tuple(edges), [known[rank] for rank in sorted(known)])


def _compare_dials(dials: Dials, world: ExpectedWorld, pods: Mapping[int, ProbedPod]) -> list[Edge]:
    dialler, to = pods.get(dials.rank), dials.to
    listener = pods.get(to.rank)
    if dialler is None:
        return [_missing_edge(dials, f"rank {dials.rank} has no pod")]
    if to.rank == SERVER:
        return [_to_server(dials, dialler)]
    if listener is None:
        return [_missing_edge(dials, f"rank {to.rank} has no pod")]
    if dialler.sockets is None and listener.sockets is None:
        return [
            Edge(
                dials.rank,
                dials.workers,
                to,
                0,
                unknown=True,
                why=_describe_unreadable(dialler, listener),
            )
        ]
    addresses = frozenset(address for pod in pods.values() for address in pod.addresses)
    found, why = _find_established(dialler, listener, to, addresses)
    if dialler.sockets is None:
        return [_counted_edge(dials, len(found), why or _explain_missing(dialler, listener, to))]
    # If the owner of each connection is known, the missing worker can be named. Otherwise only the
    # number of connections is compared.
    owners = _find_owners(dialler.sockets, world.dials, dials.rank)
    owned = [owners(end) for end in found]
    if all(len(workers) == 1 for workers in owned) and len(owners.ports) >= len(dials.workers):
        up = {worker for workers in owned for worker in workers}
        reason = why or _explain_missing(dialler, listener, to)
        return [
            Edge(dials.rank, (worker,), to, int(worker in up), why="" if worker in up else reason)
            for worker in dials.workers
        ]
    return [_counted_edge(dials, len(found), why or _explain_missing(dialler, listener, to))]


def _find_established(
    dialler: ProbedPod, listener: ProbedPod, to: Listener, addresses: frozenset[str]
) -> Found:
    """Return the connections that both ends show.

    If only one end can be read, it is enough that this end shows a connection. Connections with
    unacknowledged data are left out. If the dialing end shows a connection that is left out, also
    return why it is left out.

    If the dialing end can be read, its connections are returned, because its sockets belong to the
    worker that dialed. `addresses` contains the addresses of all ranks.
    """
    far = _matching_connections(
        listener, lambda end: end.near == to.port and end.remote in dialler.addresses
    )
    if dialler.sockets is None:
        return [end for end in far if not end.silent], ""
    # The dialing rank may itself listen on this port number. A connection with this local port
    # was accepted, not dialed, so it is excluded.
    near = _matching_connections(
        dialler,
        lambda end: end.far == to.port and end.remote in listener.addresses and end.near != to.port,
    )
    good = [end for end in near if not end.silent]
    if listener.sockets is not None:
        both = {(end.remote, end.far) for end in far}
        complete = [end for end in good if (end.local, end.near) in both]
        # With network address translation, the listener sees an address that belongs to no rank. So
        # a connection from an unknown address can be the other end of any unmatched connection.
        translated = _matching_connections(
            listener, lambda end: end.near == to.port and end.remote not in addresses
        )
        if len(good) - len(complete) > len(translated):
            reason = (
                f"half-open: rank {dialler.rank} has the connection, rank {listener.rank} does not"
            )
            return complete, reason
    silent = len(good) < len(near)
    return good, f"rank {dialler.rank} is sending data that is not acknowledged" if silent else ""


def _matching_connections(
    pod: ProbedPod, wanted: Callable[[SocketConnection], bool]
) -> list[SocketConnection]:
    return [end for end in pod.sockets.connections if wanted(end)] if pod.sockets else []


class _Owners:
    """Maps a connection to those workers of a pod that may hold the connection.

    A process is recognized as a worker by the port on which it listens.
    """

    def __init__(self, sockets: Sockets, ports: Mapping[int, int]) -> None:
        self._sockets = sockets
        held = {
            worker: sockets.processes(sockets.listening.get(port, frozenset()))
            for worker, port in ports.items()
        }
        self.ports = {worker: pids for worker, pids in held.items() if pids}

    def __call__(self, end: SocketConnection) -> frozenset[int]:
        holders = self._sockets.processes(frozenset({end.inode}))
        return frozenset(worker for worker, pids in self.ports.items() if pids & holders)


def _find_owners(sockets: Sockets, dials: Iterable[Dials], rank: int) -> _Owners:
    """Return the owners of a rank's connections. The ports of the workers identify the owners.

    Some workers listen although no process dials them, and `dials` does not contain their ports.
    The ports of all workers are consecutive, so the missing ones are computed from a known port.
    """
    known = {each.to.worker: each.to.port for each in dials if each.to.rank == rank}
    others = [each for each in dials if each.rank == rank]
    if not known and others:
        first = min(each.to.port - each.to.worker for each in others)
        known = {0: first}
    first = min((port - worker for worker, port in known.items()), default=0)
    workers = {worker for each in others for worker in each.workers} | set(known)
    return _Owners(sockets, {worker: first + worker for worker in workers})


def _to_server(dials: Dials, dialler: ProbedPod) -> Edge:
    """Count the processes of a rank that are connected to the Redis server.

    A process may have several connections to the server.
    """
    if dialler.sockets is None:
        return Edge(dials.rank, dials.workers, dials.to, 0, unknown=True, why=dialler.problem)
    ends = [
        end
        for end in dialler.sockets.connections
        if end.far == dials.to.port and end.remote not in dialler.addresses and not end.silent
    ]
    holders = [dialler.sockets.processes(frozenset({end.inode})) for end in ends]
    # A forked process shares the open sockets of its parent, which has the lower pid.
    count = len({min(pids) for pids in holders}) if all(holders) else len(ends)
    return _counted_edge(dials, count, f"no connection to port {dials.to.port}")


def _counted_edge(dials: Dials, count: int, why: str) -> Edge:
    # A worker may have reconnected before its old connection ended. Such a worker counts once.
    up = min(count, len(dials.workers))
    reason = "" if up == len(dials.workers) else why
    return Edge(dials.rank, dials.workers, dials.to, up, why=reason)


def _missing_edge(dials: Dials, why: str) -> Edge:
    return Edge(dials.rank, dials.workers, dials.to, 0, why=why)


def _describe_unreadable(dialler: ProbedPod, listener: ProbedPod) -> str:
    if dialler.rank == listener.rank:
        return f"rank {dialler.rank}: {dialler.problem}"
    return f"rank {dialler.rank}: {dialler.problem}; rank {listener.rank}: {listener.problem}"


def _explain_missing(dialler: ProbedPod, listener: ProbedPod, to: Listener) -> str:
    """Explain why a connection is missing, based on the state of both ends."""
    # Check the most fundamental reason first: a pod that is not running cannot listen.
    for pod in (listener, dialler):
        if pod.sockets is None and pod.problem.startswith("not running"):
            return f"rank {pod.rank} is {pod.problem}"
    if listener.sockets is not None and to.port not in listener.sockets.listening:
        return f"nothing listens on port {to.port} of rank {listener.rank}"
    return f"rank {to.rank} listens on port {to.port}, but rank {dialler.rank} is not connected"
