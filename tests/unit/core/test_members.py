"""Ranks in messages and in the status, names and node ids."""

from typing import Any

import pytest
from dijob.api.numbers import parse_natural
from dijob.core.members import compact_ranks, format_ranks, gang_of, parse_ranks
from dijob.core.observed.ranked import by_rank
from dijob.core.plan import make_plan
from samples.builders import NOW, gang, job, listed, observed, pod_body, read, tasks_job, view


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((), ""), ((0,), "0"), ((3, 1, 2, 0), "0-3"), ((0, 1, 2, 3, 7), "0-3,7"), ((5, 5, 9), "5,9")],
    ids=["none", "one", "run", "run-and-one", "twice"],
)
def test_ranks_are_written_compactly_and_read_back(ranks: tuple[int, ...], text: str) -> None:
    assert compact_ranks(ranks) == text
    assert parse_ranks(text) == frozenset(ranks)


@pytest.mark.parametrize(
    "text",
    ["a", "-", "1-", "x-3", " ", "0x1", "²", "1-²", "9" * 5000, "7-" + "9" * 5000],
    ids=lambda text: text[:9],
)
def test_invalid_ranks_are_ignored(text: str) -> None:
    assert parse_ranks(text) <= {1}


def test_a_range_edited_by_hand_stays_within_bounds() -> None:
    assert len(parse_ranks("0-1499")) == 1500
    assert parse_ranks("0-1500") == parse_ranks("99999") == frozenset()


def test_ranks_in_a_message() -> None:
    assert (format_ranks([2]), format_ranks([0, 1, 2, 7])) == ("rank 2", "ranks 0-2,7")


def test_members_have_computed_names_and_consecutive_node_ids() -> None:
    world = gang(size=3, workers=2)
    assert [member.name for member in world.members] == ["job-0", "job-1", "job-2"]
    assert [list(member.node_ids(2)) for member in world.members] == [[0, 1], [2, 3], [4, 5]]


NO_NUMBERS = ("9" * 16, "²", "٣", "1_0", "", " 1", "-1", "+1", "1.0", "9" * 5000)
NUMBERS = {"0": 0, "15": 15, "9" * 15: 10**15 - 1, **dict.fromkeys(NO_NUMBERS)}


@pytest.mark.parametrize(
    ("text", "number"), NUMBERS.items(), ids=[ascii(text)[:9] for text in NUMBERS]
)
def test_a_number_is_plain_digits_and_not_too_many(text: str, number: int | None) -> None:
    assert parse_natural(text) == number


@pytest.mark.parametrize(
    "gpus", ["²", "1k", "1_0", "9" * 5000, True, None, [], {"a": 1}], ids=lambda g: str(g)[:9]
)
def test_an_invalid_number_of_gpus_counts_as_none(gpus: object) -> None:
    owner = job({"containers": [{"name": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]})
    assert gang_of(owner).gpus == 0
    assert make_plan(owner, observed(), NOW).actions


@pytest.mark.parametrize(
    "name", ["job-1500", "job-99999", "job-²", "job-01", "job-" + "9" * 5000], ids=lambda n: n[:9]
)
def test_a_pod_whose_number_no_rank_can_have_does_not_belong_to_the_gang(name: str) -> None:
    body = pod_body(phase="Failed", containerStatuses=[])
    body["metadata"]["name"] = name
    pods, unranked = by_rank([read(body), *(listed(rank) for rank in range(3))], gang_of(job()))
    assert [list(pods), [pod.name for pod in unranked]] == [[0, 1, 2], [name]]
    decided = make_plan(job(), observed(*pods.values(), unranked=unranked), NOW)
    assert decided.status.restarts == 0


def test_no_rank_of_a_task_exceeds_the_largest_job() -> None:
    world = gang_of(tasks_job(1, 1, 2))
    assert [world.rank_of(f"job-collector-{index}") for index in (1497, 1498, 1499)] == [
        1499,
        -1,
        -1,
    ]
    ranked, unranked = by_rank([view(0, name="job-collector-1498")], world)
    assert [ranked, len(unranked)] == [{}, 1]


EARLY, LATE = "2026-05-04T11:00:00Z", "2026-05-04T12:00:00Z"
# Another rank of the job, on the same node and with the same image as the waiting one, unless it
# sets other values.
USER: dict[str, Any] = {"image": "my/image:1", "gated": True, "gate_started": EARLY}
USERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "its gate runs": ({}, LATE),
    "its gate has started later than the other found its node": ({"gate_started": "2027"}, "2027"),
    "its program runs": ({"gated": False, "started": EARLY}, LATE),
    "it waits, too": ({"gated": False, "unstarted": True, "gate_started": ""}, None),
    "it has another image": ({"image": "my/image:2"}, None),
    "its image is checked at each start": ({"image": ""}, None),
    "it is on another node": ({"node": "node-b"}, None),
    "it is being deleted": ({"deleting": True}, None),
}


@pytest.mark.parametrize(("other", "since"), USERS.values(), ids=USERS)
def test_an_image_used_by_another_rank_is_on_the_node(
    other: dict[str, Any], since: str | None
) -> None:
    asked = other.get("image") == ""
    lost = view(1, image="" if asked else "my/image:1", unstarted=True, placed=LATE)
    pods, _ = by_rank([view(0, **{**USER, **other}), lost], gang_of(job()))
    found = pods[1].has_arrived, pods[1].containers.gate_started
    assert found == ((True, since) if since else (False, ""))


def test_a_rank_without_an_address_has_not_arrived_even_if_its_image_is_on_the_node() -> None:
    lost = view(1, image="my/image:1", unstarted=True, ip="")
    pods, _ = by_rank([view(0, **USER), lost], gang_of(job()))
    assert not pods[1].has_arrived
