"""Which process connects to which.

DI-engine 0.5.3 applies one rule twice: to the ranks of a job (ding/entry/cli_parsers/k8s_parser.py,
_get_attach_to), and to the processes of one pod (ding/framework/parallel.py, topology_network). If
a rank connects to another rank, each process of the first connects to all processes of the second.
If the rule is applied to a job, a position is a rank. If the rule is applied to a pod, a position
is the number of a process.

All parts of the operator and of the command line take the rule from this module. The runtime in the
pods cannot import this module, because it has to run with Python 3.7 and without this package. So
dijob_runtime/topology.py repeats the rule, and a test compares the two.
"""

from collections.abc import Collection
from dataclasses import dataclass

from dijob.names import Topology


def connects_to(topology: Topology, position: int) -> range:
    """Return the positions to which this one connects: all lower ones in a mesh, and only 0 in a
    star.
    """
    match topology:
        case Topology.MESH:
            return range(position)
        case Topology.STAR:
            return range(min(position, 1))
        case Topology.ALONE:
            return range(0)


def connected_from(topology: Topology, position: int, size: int) -> range:
    """Return the positions that connect to this position, if there are `size` positions in
    total.
    """
    match topology:
        case Topology.MESH:
            return range(position + 1, size)
        case Topology.STAR:
            return range(1, 0 if position else size)
        case Topology.ALONE:
            return range(0)


@dataclass(frozen=True)
class ConnectionCount:
    """The numbers of connections among processes: between pods, and within pods."""

    between_pods: int
    within_pods: int

    @property
    def total(self) -> int:
        """All connections."""
        return self.between_pods + self.within_pods


def count_connections(topology: Topology, ranks: Collection[int], workers: int) -> ConnectionCount:
    """Return the number of connections among these ranks, each of which has `workers` processes."""
    between = _count_pairs(topology, ranks) * workers * workers
    return ConnectionCount(between, len(ranks) * _count_pairs(topology, range(workers)))


def _count_pairs(topology: Topology, positions: Collection[int]) -> int:
    # A job can have 1,500 ranks, and the web page counts the connections again after each event, so
    # the pairs are not enumerated.
    number = len(positions)
    match topology:
        case Topology.MESH:
            return number * (number - 1) // 2
        case Topology.STAR:
            return number - 1 if 0 in positions else 0
        case Topology.ALONE:
            return 0
