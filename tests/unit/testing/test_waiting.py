"""The polling helpers of all tests: their duration, and their message on a timeout."""

from collections.abc import Awaitable, Callable

import pytest
from cluster.errors import ClusterError
from cluster.waiting import NotWithin, until, until_async, until_true, until_true_async


def probes(*answers: str) -> Callable[[], str]:
    """Return a probe with these results in sequence; the last one repeats."""
    left = list(answers)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def awaited(probe: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    async def ask() -> str:
        return probe()

    return ask


async def test_a_wait_ends_with_the_first_success() -> None:
    assert until("a", probes("b", ""), 5, pause=0.001) > 0
    assert until_true("a", probes("", "b"), 5) == "b"
    assert await until_async("a", awaited(probes("b", "")), 5) > 0
    await until_true_async("a", probes("", "b"), 5)


async def test_a_timeout_reports_what_is_missing_with_the_state() -> None:
    told = "^a: not within 0 s: {}\nthe log$"
    with pytest.raises(NotWithin, match=told.format("b")) as caught:
        until("a", lambda: "b", 0, lambda: "the log")
    # A failed test; for the tool that starts clusters, a message without a traceback.
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, ClusterError)
    with pytest.raises(NotWithin, match=told.format("last seen: ''")):
        until_true("a", lambda: "", 0, lambda: "the log")
    with pytest.raises(NotWithin, match=told.format("b")):
        await until_async("a", awaited(lambda: "b"), 0, lambda: "the log")
    with pytest.raises(NotWithin, match=told.format("last seen: ''")):
        await until_true_async("a", lambda: "", 0, lambda: "the log")
