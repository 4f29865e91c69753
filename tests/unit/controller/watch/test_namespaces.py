"""Which namespaces are skipped, and when the operator restarts with another set."""

import asyncio
from collections.abc import Callable

import pytest
from dijob.controller.watch import namespaces
from dijob.kube.api import RequestError
from fakes.fake_api import Body, FakeApi

GIVEN = ("a", "b", "c")


class Rights(FakeApi):
    """Responds with a status code (0: no response) per namespace; the last script entry repeats."""

    def __init__(self, *looks: dict[str, int]) -> None:
        super().__init__()
        self.looks = list(looks)
        self.seen = 0

    async def get(self, path: str, **_: str) -> Body:
        status = self.looks[min(self.seen, len(self.looks) - 1)].get(
            path.split("/namespaces/")[1].split("/")[0], 200
        )
        if status != 200:
            raise RequestError(status, "", "no")
        return {"items": []}


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        pytest.param({}, set(), id="all are readable"),
        pytest.param({"b": 403}, {"b"}, id="one is forbidden"),
        pytest.param({"b": 404, "c": 403}, {"b", "c"}, id="one is deleted and one is forbidden"),
        pytest.param({"b": 403, "c": 500}, None, id="an error tells nothing"),
        pytest.param({"a": 0}, None, id="no response"),
        pytest.param(
            {"a": 403, "b": 403, "c": 403}, None, id="the operator lacks its own permissions"
        ),
    ],
)
async def test_which_namespaces_are_skipped(
    statuses: dict[str, int], found: set[str] | None
) -> None:
    assert await namespaces.find_unreadable(Rights(statuses).api(), GIVEN) == found


async def test_without_namespaces_none_is_skipped() -> None:
    assert await namespaces.find_unreadable(Rights({}).api(), ()) == frozenset()


B, C, OPEN, SILENT = {"b": 403}, {"c": 403}, dict[str, int](), {"a": 503, "b": 503, "c": 503}


@pytest.mark.parametrize(
    ("left_out", "looks", "ends_after"),
    [
        pytest.param({"b"}, [OPEN, OPEN], 2, id="a namespace becomes readable"),
        pytest.param(set(), [B, B], 2, id="a namespace becomes unreadable"),
        pytest.param(set(), [B, OPEN, B, B], 4, id="unreadable for a moment"),
        pytest.param(set(), [B, C, C], 3, id="two different results, then the same twice"),
        pytest.param(
            {"b"},
            [SILENT, SILENT, B, SILENT, OPEN, SILENT, OPEN],
            7,
            id="an outage changes nothing",
        ),
    ],
)
async def test_it_returns_when_the_skipped_namespaces_change(
    monkeypatch: pytest.MonkeyPatch,
    left_out: set[str],
    looks: list[dict[str, int]],
    ends_after: int,
) -> None:
    rights = Rights({}, *looks)
    monkeypatch.setattr(asyncio, "sleep", next_look(rights))
    await namespaces.until_others(rights.api(), GIVEN, frozenset(left_out))
    assert rights.seen == ends_after


def next_look(rights: Rights) -> Callable[[float], object]:
    async def sleep(_: float) -> None:
        rights.seen += 1
        assert rights.seen < len(rights.looks), "it checks without end"

    return sleep
