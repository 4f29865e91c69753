"""Who is in the world: ranks, names, node ids. Every name is computed, so that no two writers can disagree."""

from collections.abc import Iterable
from dataclasses import dataclass

from dijob.names import Addressing, Topology


@dataclass(frozen=True)
class Gang:
    """One job's world, as every member sees it.

    `size` is the number of pods that are wished for, `workers` the processes in each. `minimum` is the number of pods
    without which no world begins, from 1 to `size`.
    """

    job: str
    namespace: str
    uid: str
    size: int
    workers: int
    topology: Topology
    minimum: int
    addressing: Addressing = Addressing.IP

    def dialers(self, rank: int) -> frozenset[int]:
        """The ranks that connect to this one by its address (DI-engine 0.5.3, k8s_parser.py): in a mesh each rank
        dials all below it, in a star all dial rank 0. Whoever dials a dialer dials the rank too, or is its equal: the
        set is closed. Who dials a name finds the peer behind it again (design 6.1): nobody then."""
        if self.addressing is Addressing.HOSTNAME:
            return frozenset()
        match self.topology:
            case Topology.MESH:
                return frozenset(range(rank + 1, self.size))
            case Topology.STAR:
                return frozenset(range(1, self.size)) if rank == 0 else frozenset()
            case Topology.ALONE:
                return frozenset()

    @property
    def members(self) -> tuple["Member", ...]:
        """The members in rank order."""
        return tuple(map(self.member, range(self.size)))

    def address(self, rank: int, ip: str) -> str:
        """What stands for a rank in address lists. The name is that of the headless service, in the pods' namespace."""
        return f"{self.member(rank).name}.{self.job}" if self.addressing is Addressing.HOSTNAME else ip

    def member(self, rank: int) -> "Member":
        """The member of this rank."""
        return Member(rank, f"{self.job}-{rank}")


@dataclass(frozen=True)
class Member:
    """One pod of the gang: its rank (0 ... size-1) and its name, which is also its hostname."""

    rank: int
    name: str

    def node_ids(self, workers: int) -> range:
        """The DI-engine node ids of this pod's processes: rank * workers + i (k8s_parser.py)."""
        return range(self.rank * workers, (self.rank + 1) * workers)


def compact(ranks: Iterable[int]) -> str:
    """Write a set of ranks as "0-3,7"; nothing as ""."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def expand(text: str) -> frozenset[int]:
    """Read "0-3,7" back; a part that is no number or range is left out (status can be edited by hand)."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if _is_rank(first) and _is_rank(last or first):
            ranks.update(range(int(first), int(last or first) + 1))
    return frozenset(ranks)


def _is_rank(text: str) -> bool:
    """Plain digits, and few: int() refuses thousands of them, and a range of millions would take the memory."""
    return text.isascii() and text.isdigit() and len(text) < 6


def say(ranks: Iterable[int]) -> str:
    """Name ranks in a sentence: "rank 2", "ranks 0-3,7"."""
    wanted = sorted(set(ranks))
    return f"rank {wanted[0]}" if len(wanted) == 1 else f"ranks {compact(wanted)}"
