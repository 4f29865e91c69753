"""Messages about ranks: each cause once, and no rank is cut off (X1)."""

import re

import pytest
from dijob.core.members import Gang, GangTask, parse_ranks
from dijob.core.observed.grouping import MESSAGE_LIMIT, group_causes, shorten_message
from dijob.names import TaskType
from hypothesis import given
from hypothesis import strategies as st
from samples.builders import gang

TASKS = (GangTask("actor", TaskType.COLLECTOR, 0, 2), GangTask("learner", TaskType.LEARNER, 2, 1))


def ranks_in(message: str) -> set[int]:
    return {
        rank for found in re.findall(r"ranks? ([-,0-9]+):", message) for rank in parse_ranks(found)
    }


@pytest.mark.parametrize("of", [gang(), gang(tasks=TASKS)], ids=["plain", "tasks"])
def test_a_cause_about_pods_of_different_names_appears_once(of: Gang) -> None:
    names = [of.member(rank).name for rank in range(3)]
    said = group_causes(of, range(3), lambda rank: f'pods "{names[rank]}" is forbidden')
    assert said == f'ranks 0-2: pods "{names[0]}" is forbidden'


def test_a_name_that_is_a_prefix_of_another_is_not_replaced() -> None:
    said = group_causes(gang(20), [1, 2], lambda rank: f"pod job-{rank} waits for job-1{rank}")
    assert said == "rank 1: pod job-1 waits for job-11; rank 2: pod job-2 waits for job-12"


def test_long_causes_are_cut_and_all_their_ranks_are_named() -> None:
    causes = {0: "x" * 2000, 1: "y" * 2000, 2: "short"}
    said = group_causes(gang(), range(3), lambda rank: causes[rank])
    assert ranks_in(said) == {0, 1, 2}
    assert said.endswith("; rank 2: short")
    assert len(said) < MESSAGE_LIMIT


def test_causes_without_room_are_merged() -> None:
    said = group_causes(gang(1000), range(1000), lambda rank: f"cause {rank} {'x' * 50}")
    assert said.startswith("rank 0: cause 0 xxx")
    assert re.search(r"; ranks [0-9]+-999: for other reasons$", said)
    assert ranks_in(said) == set(range(1000))
    assert len(said) < MESSAGE_LIMIT


def test_a_long_list_of_ranks_is_given_by_its_ends() -> None:
    said = group_causes(gang(1000), range(0, 1000, 2), lambda _: "its pod is waiting for a node")
    assert said == "each of 500 ranks from 0 to 998: its pod is waiting for a node"


@given(st.dictionaries(st.integers(0, 60), st.text("abcd ", min_size=1, max_size=300), min_size=1))
def test_every_rank_is_in_the_message(causes: dict[int, str]) -> None:
    said = group_causes(gang(61), causes, lambda rank: causes[rank])
    assert len(said) < MESSAGE_LIMIT
    assert ranks_in(said) == set(causes)


def test_a_short_text_is_not_cut() -> None:
    assert shorten_message("x" * 10, 10) == "x" * 10
    assert shorten_message("x" * 11, 10) == "xxxxxx ..."
