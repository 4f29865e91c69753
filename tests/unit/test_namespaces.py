"""Which namespaces are left out, and when the operator must begin anew with others."""

import asyncio
from collections.abc import Callable

import pytest
from dijob.shell import namespaces
from dijob.shell.api import ApiError
from unit.fake_api import Body, FakeApi

GIVEN = ("a", "b", "c")


class Rights(FakeApi):
    """Answers of one status (0: none at all) per namespace; those of the last script stay."""

    def __init__(self, *looks: dict[str, int]) -> None:
        super().__init__()
        self.looks = list(looks)
        self.seen = 0

    async def get(self, path: str, **_: str) -> Body:
        status = self.looks[min(self.seen, len(self.looks) - 1)].get(
            path.split("/namespaces/")[1].split("/")[0], 200
        )
        if status != 200:
            raise ApiError(status, "", "no")
        return {"items": []}


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        pytest.param({}, set(), id="all are open"),
        pytest.param({"b": 403}, {"b"}, id="one may not be read"),
        pytest.param({"b": 404, "c": 403}, {"b", "c"}, id="two"),
        pytest.param({"b": 403, "c": 500}, None, id="an error says nothing"),
        pytest.param({"a": 0}, None, id="no answer"),
        pytest.param(
            {"a": 403, "b": 403, "c": 403}, None, id="the operator's own rights are wrong"
        ),
    ],
)
async def test_who_is_left_out(statuses: dict[str, int], found: set[str] | None) -> None:
    assert await namespaces.closed(Rights(statuses).api(), GIVEN) == found


async def test_without_names_nobody_is() -> None:
    assert await namespaces.closed(Rights({}).api(), ()) == frozenset()


B, C, OPEN, SILENT = {"b": 403}, {"c": 403}, dict[str, int](), {"a": 503, "b": 503, "c": 503}


@pytest.mark.parametrize(
    ("left_out", "looks", "ends_after"),
    [
        pytest.param({"b"}, [OPEN, OPEN], 2, id="it is back"),
        pytest.param(set(), [B, B], 2, id="it goes"),
        pytest.param(set(), [B, OPEN, B, B], 4, id="no for a moment"),
        pytest.param(set(), [B, C, C], 3, id="twice the same"),
        pytest.param(
            {"b"}, [SILENT, SILENT, B, SILENT, OPEN, SILENT, OPEN], 7, id="an outage is no news"
        ),
    ],
)
async def test_it_ends_when_others_must_be_left_out(
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
        assert rights.seen < len(rights.looks), "it looks on and on"

    return sleep
