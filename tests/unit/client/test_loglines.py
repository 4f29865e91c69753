"""Lines of logs: timestamps of all kubelets, and logs that are reopened without duplicates."""

import pytest
from dijob.client.loglines import Cursor, Line, ranks_in, split_timestamp
from hypothesis import given
from hypothesis import strategies as st

SECOND = 10**9


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param("1970-01-01T00:00:01.5Z a b", (1_500_000_000, "a b"), id="trimmed"),
        pytest.param("1970-01-01T01:00:01.000000007+01:00 x", (1_000_000_007, "x"), id="zone"),
        pytest.param("1970-01-01T00:00:01Z ", (SECOND, ""), id="empty"),
        pytest.param("no stamp", (0, "no stamp"), id="no stamp"),
    ],
)
def test_parsing_of_timestamp_and_text(raw: str, expected: tuple[int, str]) -> None:
    assert split_timestamp(raw) == expected


def test_a_timestamp_has_milliseconds() -> None:
    assert Line(1_234_567_890, 0, "a-0", "x").stamp == "1970-01-01T00:00:01.234Z"


@given(
    st.lists(st.tuples(st.integers(1, 40), st.sampled_from("ab")), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_reopened_logs_neither_repeat_nor_lose_lines(
    steps: list[tuple[int, str]], breaks: list[int]
) -> None:
    """A log starts at a whole second (sinceTime), and the connection breaks at any line."""
    at, log = 0, []
    for step, text in steps:
        at += step * SECOND // 20
        log.append((at + SECOND, text))
    cursor, got = Cursor(), []
    for end in [*sorted(breaks), len(log)]:
        cursor.reopen()
        first = cursor.last // SECOND * SECOND
        for time, text in (line for line in log[:end] if line[0] >= first):
            if cursor.is_new(time, text):
                got.append((time, text))
    assert got == log


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        pytest.param("0", {0}, id="one"),
        pytest.param("0-2,5", {0, 1, 2, 5}, id="ranges"),
    ],
)
def test_ranks(text: str, ranks: set[int]) -> None:
    assert ranks_in(text) == ranks


@pytest.mark.parametrize("text", ["a", "1-", "-1", "", "5-2"])
def test_no_ranks(text: str) -> None:
    with pytest.raises(ValueError, match="0-2,5"):
        ranks_in(text)


@pytest.mark.parametrize(
    "text", ["0-99999999", "0-1500", "1500", "0-" + "9" * 15, "0-" + "9" * 5000]
)
def test_a_too_large_range_is_rejected_before_it_is_built(text: str) -> None:
    """H3, R7: 0-99999999 used up the memory."""
    with pytest.raises(ValueError, match=r"cannot exist|is not a rank") as caught:
        ranks_in(text)
    assert len(str(caught.value)) < 200
