"""The store: what a list and a watch show, what vanishes unseen, and what our own writes put in
ahead of both.
"""

import asyncio

import pytest
from dijob.shell import reflector
from dijob.shell.api import ApiError
from dijob.shell.jobs import WentBackError
from unit.fake_api import Body, FakeApi
from unit.things import END, Brief, Sleeper, Thing, body, event, made, page, run, uids


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken watch is followed by the next list without a pause."""
    monkeypatch.setattr(reflector, "RETRY_SECONDS", (0.0, 0.0))


async def test_a_list_in_pages_then_a_watch_from_its_version() -> None:
    api, under_test = FakeApi(), made()
    api.lists = [page(5, body("1"), token="more"), page(5, body("2", owner="b"))]
    api.watches = [
        [
            event("ADDED", body("3", 6)),
            event("MODIFIED", body("1", 7)),
            event("DELETED", body("2", 8, owner="b")),
        ]
    ]
    told = await run(under_test, api)
    assert uids(under_test) == {"1", "3"}
    assert {one.version for one in under_test.of("a")} == {"6", "7"}
    assert under_test.of("b") == ()
    assert [call[2].get("continue") for call in api.calls] == [None, "more"]
    assert [stream.version for stream in api.watched] == ["5", "8"]
    assert told[:2] in (["a", "b"], ["b", "a"])
    assert told[2:] == ["a", "a", "b"]
    assert (under_test.listed, len(under_test)) == (True, 2)


async def test_a_bookmark_moves_the_version_and_is_no_object() -> None:
    api, under_test = FakeApi(), made()
    api.lists = [page(5)]
    api.watches = [[event("BOOKMARK", {"metadata": {"resourceVersion": "50"}})]]
    assert await run(under_test, api) == []
    assert api.watched[-1].version == "50"


@pytest.mark.parametrize(
    "ending",
    [
        [event("ERROR", {"code": 410, "message": "too old"})],
        [ApiError(410, "Expired", "too old")],
        [ApiError(0, "reset", "")],
        [ApiError(503, "", "")],
    ],
    ids=["410-event", "410", "reset", "503"],
)
async def test_what_vanished_while_the_watch_was_down_is_noticed(
    ending: list[Body | ApiError],
) -> None:
    api, under_test = FakeApi(), made()
    api.lists = [page(5, body("1"), body("2", owner="b")), page(9, body("1"))]
    api.watches = [ending]
    told = await run(under_test, api)
    assert (uids(under_test), under_test.of("b")) == ({"1"}, ())
    assert "b" in told[2:]


async def test_a_list_that_fails_is_made_again() -> None:
    api, under_test = FakeApi(), made()
    api.lists = [ApiError(503, "", ""), ApiError(0, "", ""), page(5, body("1"))]
    await run(under_test, api)
    assert uids(under_test) == {"1"}


async def test_what_we_made_and_nobody_ever_showed_us_vanishes_with_the_next_list() -> None:
    """Created by us, gone again while the watch was down: only the list can tell."""
    api, under_test = FakeApi(), made()
    under_test.put(Thing("ghost", "a", "6"))
    api.lists = [page(9, body("1"))]
    told = await run(under_test, api)
    assert uids(under_test) == {"1"}
    assert "a" in told


async def test_what_we_made_after_the_list_was_taken_stays() -> None:
    api, under_test = FakeApi(), made()
    under_test.put(Thing("new", "a", "12"))
    api.lists = [page(9, body("1"))]
    await run(under_test, api)
    assert uids(under_test) == {"1", "new"}


async def test_with_several_namespaces_only_the_lists_of_all_can_tell() -> None:
    api, under_test = FakeApi(), made("/ns/a", "/ns/b")
    under_test.put(Thing("ghost", "a", "6"))
    under_test.put(Thing("1", "a", "6"))
    api.lists = [page(9, body("1", 6)), page(9)]
    await run(under_test, api)
    assert uids(under_test) == {"1"}


async def test_what_was_read_ahead_of_the_list_counts_until_the_list_knows_better() -> None:
    under_test = made()
    api = FakeApi(lists=[page(5, body("stays", 3), body("goes", 4)), page(7, body("stays", 3))])
    await under_test.read(api.api(), "/things", "x=y,job=a")
    assert (uids(under_test), under_test.listed) == ({"stays", "goes"}, False)
    assert api.calls == [("GET", "/things", {"labelSelector": "x=y,job=a"})]
    await run(under_test, api)
    assert (uids(under_test), under_test.listed) == ({"stays"}, True)


def test_an_older_view_never_replaces_a_newer_one() -> None:
    under_test = made()
    under_test.put(Thing("1", "a", "10"))
    under_test.put(Thing("1", "a", "9"))
    assert under_test.of("a")[0].version == "10"


def test_what_is_known_to_be_gone_stays_gone() -> None:
    under_test = made()
    under_test.put(Thing("1", "a", "10"))
    under_test.drop("1")
    under_test.put(Thing("1", "a", "11"))
    assert (under_test.of("a"), len(under_test)) == ((), 0)
    under_test.drop("never-seen")


async def test_one_that_changes_hands_is_told_to_both() -> None:
    """`--cascade=orphan`, or an owner reference edited by hand."""
    api, under_test = FakeApi(), made()
    api.lists = [page(5, body("1"))]
    api.watches = [[event("MODIFIED", body("1", 6, owner="b"))]]
    told = await run(under_test, api)
    assert (uids(under_test, "a"), uids(under_test, "b")) == (set(), {"1"})
    assert set(told[1:]) == {"a", "b"}


async def test_silence_counts_from_the_last_word() -> None:
    api, under_test = FakeApi(), made()
    assert not under_test.listed
    api.lists = [page(5)]
    await run(under_test, api)
    assert under_test.silence < 60


GONE = event("ERROR", {"code": 410, "message": "too old"})


@pytest.mark.parametrize(
    "ending",
    [[GONE], [], [ApiError(0, "reset", "")], [event("MODIFIED", body("1", 5)), GONE]],
    ids=["an error at once", "nothing at all", "broken", "one event"],
)
@pytest.mark.parametrize(
    ("lasts", "pauses"),
    [
        pytest.param([0.0] * 8, [0.2, 0.4, 0.8, 1.6, 3.2, 6.0, 6.0, 6.0], id="brief ones"),
        pytest.param([0.0, 0.0, 300.0, 0.0], [0.2, 0.4, 0.2], id="one that lasted"),
    ],
)
async def test_a_watch_that_ends_at_once_is_begun_again_after_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch,
    ending: list[Body | ApiError],
    lasts: list[float],
    pauses: list[float],
) -> None:
    clock = Sleeper()
    monkeypatch.setattr(reflector, "RETRY_SECONDS", (0.2, 6.0))
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    await run(made(clock=clock), Brief(clock, ending, list(lasts)))
    assert clock.slept == pytest.approx(pauses)


async def test_a_list_as_a_stream_then_a_watch_from_its_end() -> None:
    api, under_test = FakeApi(streams=True), made()
    listed: list[Body | ApiError] = [
        event("ADDED", body("1")),
        event("ADDED", body("2")),
        event("DELETED", body("2", 3)),
    ]
    api.watches = [[*listed, END], [event("ADDED", body("3", 10))]]
    told = await run(under_test, api)
    assert uids(under_test) == {"1", "3"}
    assert [(stream.initial, stream.version) for stream in api.watched[:3]] == [
        (True, ""),
        (False, "9"),
        (False, "10"),
    ]
    assert api.calls == []
    assert set(told) == {"a"}


async def test_what_a_later_stream_does_not_list_has_vanished() -> None:
    api, under_test = FakeApi(streams=True), made()
    gone = ApiError(410, "Expired", "too old")
    api.watches = [
        [event("ADDED", body("1")), event("ADDED", body("2")), END],
        [gone],
        [event("ADDED", body("2")), END],
    ]
    told = await run(under_test, api)
    assert uids(under_test) == {"2"}
    # Once for the first list, once for what vanished; what is as it was is no news.
    assert len(told) == 3 - 1


async def test_a_stream_that_ends_half_way_is_begun_again() -> None:
    api, under_test = FakeApi(streams=True), made()
    broken = ApiError(503, "ServiceUnavailable", "no")
    api.lists = [broken]  # the pages that stand in for it fail as well
    api.watches = [
        [event("ADDED", body("1")), event("DELETED", body("1", 3))],
        [event("ADDED", body("2")), END],
    ]
    told = await run(under_test, api)
    assert uids(under_test) == {"2"}
    assert under_test.listed
    # What the broken one has shown is told too: the next one finds nothing new in it.
    assert len(told) == 2


async def test_where_the_stream_fails_for_any_reason_pages_do() -> None:
    api, under_test = FakeApi(streams=True), made()
    api.watches = [[event("ADDED", body("1"))]]
    api.lists = [page(9, body("2"))]
    await run(under_test, api)
    assert uids(under_test) == {"2"}


async def test_what_lost_its_label_comes_back_with_it() -> None:
    api, under_test = FakeApi(), made()
    api.lists = [page(9, body("1", 5))]
    deleted, old, new = (
        event("DELETED", body("1", 11)),
        event("ADDED", body("1", 10)),
        event("ADDED", body("1", 12)),
    )
    api.watches = [[deleted, old], [new]]
    await run(under_test, api)
    assert {view.version for view in under_test.of("a")} == {"12"}


@pytest.mark.parametrize("streams", [False, True], ids=["in pages", "as a stream"])
async def test_a_list_that_is_older_than_what_was_shown_before_is_of_a_store_that_went_back(
    streams: bool,
) -> None:
    """etcd was restored from a backup: no watch will ever show the versions that are known."""
    api, under_test = FakeApi(streams=streams), made()
    older: Body = {
        "type": "BOOKMARK",
        "object": {
            "metadata": {"resourceVersion": "7", "annotations": {reflector.INITIAL_END: "true"}}
        },
    }
    if streams:
        api.watches = [
            [event("ADDED", body("1")), END],
            [event("MODIFIED", body("1", 12))],
            [ApiError(0, "reset", "")],
            [event("ADDED", body("1", 4)), older],
        ]
    else:
        api.lists = [page(9, body("1")), page(7, body("1", 4))]
        api.watches = [[event("MODIFIED", body("1", 12))], [ApiError(0, "reset", "")]]
    with pytest.raises(WentBackError, match="things: resource version went back from 12 to 7"):
        await under_test.run(api.api())
