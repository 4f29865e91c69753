"""What should be connected against what is. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dijob.cli.topology.expected import SERVER, Dials, Listener, World
from dijob.cli.topology.sockets import Connection, Sockets


@dataclass(frozen=True)
class Pod:
    """A rank as it was found: its addresses, and what it has; None where it could not be asked,
    with the reason.
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
    """Connections from some workers of a rank to one listener: how many are wanted and up. Where
    the processes of the pod can be told apart, from one worker.
    """

    rank: int
    workers: tuple[int, ...]
    to: Listener
    up: int
    unknown: bool = False
    why: str = ""

    @property
    def wanted(self) -> int:
        """How many connections there should be."""
        return len(self.workers)

    @property
    def missing(self) -> int:
        """How many are not there."""
        return 0 if self.unknown else self.wanted - self.up


@dataclass(frozen=True)
class Report:
    """All edges of a job, and the pods that could not be asked."""

    job: str
    world: World
    edges: tuple[Edge, ...]
    pods: Sequence[Pod] = field(default=())

    @property
    def up(self) -> int:
        """How many connections are up."""
        return sum(edge.up for edge in self.edges)

    @property
    def missing(self) -> int:
        """How many are known to be missing."""
        return sum(edge.missing for edge in self.edges)

    @property
    def unknown(self) -> int:
        """How many cannot be seen from either end."""
        return sum(edge.wanted for edge in self.edges if edge.unknown)

    @property
    def whole(self) -> bool:
        """Whether every connection is seen to be up."""
        return self.up == self.world.total


Found = tuple[list[Connection], str]


def compare(job: str, world: World, pods: Iterable[Pod]) -> Report:
    """The report on a job's pods."""
    known = {pod.rank: pod for pod in pods}
    edges = [edge for dials in world.dials for edge in _edges(dials, world, known)]
    return Report(job, world, tuple(edges), [known[rank] for rank in sorted(known)])


def _edges(dials: Dials, world: World, pods: Mapping[int, Pod]) -> list[Edge]:
    dialler, to = pods.get(dials.rank), dials.to
    listener = pods.get(to.rank)
    if dialler is None:
        return [_none(dials, f"rank {dials.rank} has no pod")]
    if to.rank == SERVER:
        return [_to_server(dials, dialler)]
    if listener is None:
        return [_none(dials, f"rank {to.rank} has no pod")]
    if dialler.sockets is None and listener.sockets is None:
        return [
            Edge(dials.rank, dials.workers, to, 0, unknown=True, why=_unseen(dialler, listener))
        ]
    everybody = frozenset(address for pod in pods.values() for address in pod.addresses)
    found, why = _found(dialler, listener, to, everybody)
    if dialler.sockets is None:
        return [_counted(dials, len(found), why or _why(dialler, listener, to))]
    whose = _owners(dialler.sockets, world.dials, dials.rank)
    owned = [whose(end) for end in found]
    if all(len(workers) == 1 for workers in owned) and len(whose.ports) >= len(dials.workers):
        up = {worker for workers in owned for worker in workers}
        reason = why or _why(dialler, listener, to)
        return [
            Edge(dials.rank, (worker,), to, int(worker in up), why="" if worker in up else reason)
            for worker in dials.workers
        ]
    return [_counted(dials, len(found), why or _why(dialler, listener, to))]


def _found(dialler: Pod, listener: Pod, to: Listener, everybody: frozenset[str]) -> Found:
    """The connections that both ends have, as far as they can be asked, by the dialling end where
    that can; and why others are no good. `everybody`: the addresses of all ranks.
    """
    far = _at(listener, lambda end: end.near == to.port and end.remote in dialler.addresses)
    if dialler.sockets is None:
        return [end for end in far if not end.silent], ""
    near = _at(
        dialler,
        lambda end: end.far == to.port and end.remote in listener.addresses and end.near != to.port,
    )
    good = [end for end in near if not end.silent]
    if listener.sockets is not None:
        both = {(end.remote, end.far) for end in far}
        whole = [end for end in good if (end.local, end.near) in both]
        # Where addresses are translated on the way, the listener sees a connection from nobody.
        nobody = _at(listener, lambda end: end.near == to.port and end.remote not in everybody)
        if len(good) - len(whole) > len(nobody):
            said = f"only rank {dialler.rank} has its end of it, rank {listener.rank} has not"
            return whole, said
    silent = len(good) < len(near)
    return good, f"rank {dialler.rank} sends, and nothing answers" if silent else ""


def _at(pod: Pod, wanted: Callable[[Connection], bool]) -> list[Connection]:
    return [end for end in pod.sockets.connections if wanted(end)] if pod.sockets else []


class _Owners:
    """Which workers of a pod may hold a connection: a worker is who listens on its port."""

    def __init__(self, sockets: Sockets, ports: Mapping[int, int]) -> None:
        self._sockets = sockets
        held = {
            worker: sockets.processes(sockets.listening.get(port, frozenset()))
            for worker, port in ports.items()
        }
        self.ports = {worker: pids for worker, pids in held.items() if pids}

    def __call__(self, end: Connection) -> frozenset[int]:
        mine = self._sockets.processes(frozenset({end.inode}))
        return frozenset(worker for worker, pids in self.ports.items() if pids & mine)


def _owners(sockets: Sockets, dials: Iterable[Dials], rank: int) -> _Owners:
    """A worker that nobody dials listens all the same, on the port beside."""
    known = {each.to.worker: each.to.port for each in dials if each.to.rank == rank}
    others = [each for each in dials if each.rank == rank]
    if not known and others:
        first = min(each.to.port - each.to.worker for each in others)
        known = {0: first}
    first = min((port - worker for worker, port in known.items()), default=0)
    workers = {worker for each in others for worker in each.workers} | set(known)
    return _Owners(sockets, {worker: first + worker for worker in workers})


def _to_server(dials: Dials, dialler: Pod) -> Edge:
    """Each process has one connection or more to the server."""
    if dialler.sockets is None:
        return Edge(dials.rank, dials.workers, dials.to, 0, unknown=True, why=dialler.problem)
    ends = [
        end
        for end in dialler.sockets.connections
        if end.far == dials.to.port and end.remote not in dialler.addresses and not end.silent
    ]
    holders = [dialler.sockets.processes(frozenset({end.inode})) for end in ends]
    # A process that is forked off has what its parent has open.
    count = len({min(pids) for pids in holders}) if all(holders) else len(ends)
    return _counted(dials, count, f"nothing of it is connected to port {dials.to.port}")


def _counted(dials: Dials, count: int, why: str) -> Edge:
    up = min(count, len(dials.workers))
    said = "" if up == len(dials.workers) else why
    return Edge(dials.rank, dials.workers, dials.to, up, why=said)


def _none(dials: Dials, why: str) -> Edge:
    return Edge(dials.rank, dials.workers, dials.to, 0, why=why)


def _unseen(dialler: Pod, listener: Pod) -> str:
    if dialler.rank == listener.rank:
        return f"rank {dialler.rank}: {dialler.problem}"
    return f"rank {dialler.rank}: {dialler.problem}; rank {listener.rank}: {listener.problem}"


def _why(dialler: Pod, listener: Pod, to: Listener) -> str:
    """What is seen of a connection that is not there."""
    for pod in (listener, dialler):
        if pod.sockets is None and pod.problem.startswith("not running"):
            return f"rank {pod.rank} is {pod.problem}"
    if listener.sockets is not None and to.port not in listener.sockets.listening:
        return f"nothing listens on port {to.port} of rank {listener.rank}"
    return f"rank {to.rank} listens on port {to.port}, and rank {dialler.rank} is not connected"
