"""Which process connects to which: the rule of the operator, and that of the runtime."""

from itertools import product

import pytest
from dijob.names import Topology
from dijob.topology import connected_from, connects_to, count_connections
from dijob_runtime import topology as runtime
from dijob_runtime.hook.connected import select_peers
from dijob_runtime.world import PodWorld

SIZES = range(1, 6)
WORKERS = range(1, 4)


@pytest.mark.parametrize(
    ("topology", "connections"),
    [
        (Topology.MESH, [[], [0], [0, 1], [0, 1, 2]]),
        (Topology.STAR, [[], [0], [0], [0]]),
        (Topology.ALONE, [[], [], [], []]),
    ],
    ids=list(Topology),
)
def test_a_rank_connects_to_lower_ones(topology: Topology, connections: list[list[int]]) -> None:
    assert [list(connects_to(topology, rank)) for rank in range(4)] == connections


@pytest.mark.parametrize(("topology", "size"), list(product(Topology, SIZES)))
def test_both_directions_describe_the_same_connections(topology: Topology, size: int) -> None:
    outgoing = {(a, b) for a in range(size) for b in connects_to(topology, a)}
    incoming = {(a, b) for b in range(size) for a in connected_from(topology, b, size)}
    assert outgoing == incoming


@pytest.mark.parametrize(("topology", "size", "workers"), list(product(Topology, SIZES, WORKERS)))
def test_the_runtime_expects_the_connections_that_the_operator_counts(
    topology: Topology, size: int, workers: int
) -> None:
    addresses = tuple(f"10.0.0.{rank}" for rank in range(size))
    ends = sum(
        len(select_peers(PodWorld(rank, addresses, workers, topology.value, worker=worker)))
        for rank, worker in product(range(size), range(workers))
    )
    assert ends == 2 * count_connections(topology, range(size), workers).total


@pytest.mark.parametrize(("topology", "rank"), list(product(Topology, SIZES)))
def test_the_runtime_has_the_same_rule(topology: Topology, rank: int) -> None:
    assert runtime.connects_to(topology.value, rank) == connects_to(topology, rank)


def test_the_ranks_of_a_star_without_its_center_have_no_connections_between_pods() -> None:
    assert count_connections(Topology.STAR, [1, 2], 2).between_pods == 0
