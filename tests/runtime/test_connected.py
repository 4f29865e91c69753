"""Which processes one waits for before its program begins."""

import pytest
from dijob_runtime.hook.connected import NOBODY, peers
from dijob_runtime.world import World

Processes = set[tuple[int, int]]


def world(topology: str, rank: int, worker: int, **more: str) -> World:
    """One process of a job of three pods with two workers each."""
    return World(rank, ("a", "b", "c"), 2, topology, worker=worker, **more)  # type: ignore[arg-type]


ALL = {(rank, worker) for rank in range(3) for worker in range(2)}


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (world("mesh", 1, 0), ALL - {(1, 0)}),
        (world("alone", 1, 0), set()),
        (world("star", 0, 0), ALL - {(0, 0)}),
        (world("star", 0, 1), {(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)}),
        (world("star", 2, 0), {(2, 1), (0, 0), (0, 1)}),
        (world("star", 2, 1), {(2, 0), (0, 0), (0, 1)}),
        (world("star", 2, 1, mq_type="redis"), ALL - {(2, 1)}),
    ],
    ids=["mesh", "alone", "hub", "beside the hub", "leaf", "beside a leaf", "redis"],
)
def test_the_topology_says_who_is_connected(place: World, wanted: Processes) -> None:
    assert peers(place) == wanted


def test_both_ends_of_a_connection_wait_for_it() -> None:
    for topology in ("mesh", "star"):
        for rank, worker in ALL:
            for other in peers(world(topology, rank, worker)):
                assert (rank, worker) in peers(world(topology, *other)), (topology, rank, other)


def test_nobody_waits_for_a_rank_that_has_succeeded() -> None:
    place = World(0, ("a", NOBODY, "c"), 1, "mesh")
    assert peers(place) == {(2, 0)}
