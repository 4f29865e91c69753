"""Ranks in sentences and in status, names and node ids."""

import pytest
from dijob.core.members import compact, expand, say
from unit.builders import gang


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((), ""), ((0,), "0"), ((3, 1, 2, 0), "0-3"), ((0, 1, 2, 3, 7), "0-3,7"), ((5, 5, 9), "5,9")],
    ids=["none", "one", "run", "run-and-one", "twice"],
)
def test_ranks_are_written_compactly_and_read_back(ranks: tuple[int, ...], text: str) -> None:
    assert compact(ranks) == text
    assert expand(text) == frozenset(ranks)


@pytest.mark.parametrize(
    "text", ["a", "-", "1-", "x-3", " ", "0x1", "²", "1-²", "9" * 5000, "7-" + "9" * 5000], ids=lambda text: text[:9]
)
def test_what_is_no_rank_is_left_out(text: str) -> None:
    assert expand(text) <= {1}


def test_a_hand_made_range_stays_within_bounds() -> None:
    assert len(expand("0-99999")) == 100_000
    assert expand("0-100000") == frozenset()


def test_ranks_in_a_sentence() -> None:
    assert (say([2]), say([0, 1, 2, 7])) == ("rank 2", "ranks 0-2,7")


def test_members_have_computed_names_and_consecutive_node_ids() -> None:
    world = gang(size=3, workers=2)
    assert [member.name for member in world.members] == ["job-0", "job-1", "job-2"]
    assert [list(member.node_ids(2)) for member in world.members] == [[0, 1], [2, 3], [4, 5]]
