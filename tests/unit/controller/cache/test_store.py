"""The store: objects from lists, watches and our own writes, and unnoticed deletions."""

import asyncio

import pytest
from dijob.controller.cache import reflector
from dijob.controller.cache.jobs import WentBackError
from dijob.kube.api import RequestError
from fakes.fake_api import Body, FakeApi
from fakes.things import END, Brief, Sleeper, Thing, body, event, made, page, run, uids


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pause between a broken watch and the next list."""
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


async def test_a_bookmark_advances_the_version_and_is_not_an_object() -> None:
    api, under_test = FakeApi(), made()
    api.lists = [page(5)]
    api.watches = [[event("BOOKMARK", {"metadata": {"resourceVersion": "50"}})]]
    assert await run(under_test, api) == []
    assert api.watched[-1].version == "50"


@pytest.mark.parametrize(
    "ending",
    [
        [event("ERROR", {"code": 410, "message": "too old"})],
        [RequestError(410, "Expired", "too old")],
        [RequestError(0, "reset", "")],
        [RequestError(503, "", "")],
    ],
    ids=["410-event", "410", "reset", "503"],
)
async def test_objects_that_disappear_while_the_watch_is_down_are_noticed(
    ending: list[Body | RequestError],
) -> None:
    api, under_test = FakeApi(), made()
    api.lists = [page(5, body("1"), body("2", owner="b")), page(9, body("1"))]
    api.watches = [ending]
    told = await run(under_test, api)
    assert (uids(under_test), under_test.of("b")) == ({"1"}, ())
    assert "b" in told[2:]


async def test_a_failed_list_is_retried() -> None:
    api, under_test = FakeApi(), made()
    api.lists = [RequestError(503, "", ""), RequestError(0, "", ""), page(5, body("1"))]
    await run(under_test, api)
    assert uids(under_test) == {"1"}


async def test_a_created_object_that_no_list_shows_is_removed() -> None:
    """The operator created the object, which was deleted while the watch was down. So only a list
    can show that it is gone.
    """
    api, under_test = FakeApi(), made()
    under_test.put(Thing("ghost", "a", "6"))
    api.lists = [page(9, body("1"))]
    told = await run(under_test, api)
    assert uids(under_test) == {"1"}
    assert "a" in told


async def test_an_object_created_after_the_list_is_kept() -> None:
    api, under_test = FakeApi(), made()
    under_test.put(Thing("new", "a", "12"))
    api.lists = [page(9, body("1"))]
    await run(under_test, api)
    assert uids(under_test) == {"1", "new"}


async def test_with_several_namespaces_all_lists_must_lack_an_object() -> None:
    api, under_test = FakeApi(), made("/ns/a", "/ns/b")
    under_test.put(Thing("ghost", "a", "6"))
    under_test.put(Thing("1", "a", "6"))
    api.lists = [page(9, body("1", 6)), page(9)]
    await run(under_test, api)
    assert uids(under_test) == {"1"}


async def test_objects_read_before_the_initial_list_are_kept_until_it_completes() -> None:
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


def test_a_deleted_object_does_not_come_back() -> None:
    under_test = made()
    under_test.put(Thing("1", "a", "10"))
    under_test.drop("1")
    under_test.put(Thing("1", "a", "11"))
    assert (under_test.of("a"), len(under_test)) == ((), 0)
    under_test.drop("never-seen")


async def test_a_change_of_the_owner_is_reported_to_both_owners() -> None:
    """For example after `--cascade=orphan`, or an edit of the owner reference."""
    api, under_test = FakeApi(), made()
    api.lists = [page(5, body("1"))]
    api.watches = [[event("MODIFIED", body("1", 6, owner="b"))]]
    told = await run(under_test, api)
    assert (uids(under_test, "a"), uids(under_test, "b")) == (set(), {"1"})
    assert set(told[1:]) == {"a", "b"}


async def test_silence_counts_from_the_last_event() -> None:
    api, under_test = FakeApi(), made()
    assert not under_test.listed
    api.lists = [page(5)]
    await run(under_test, api)
    assert under_test.silence < 60


GONE = event("ERROR", {"code": 410, "message": "too old"})


@pytest.mark.parametrize(
    "ending",
    [[GONE], [], [RequestError(0, "reset", "")], [event("MODIFIED", body("1", 5)), GONE]],
    ids=["an error at once", "nothing at all", "broken", "one event"],
)
@pytest.mark.parametrize(
    ("lasts", "pauses"),
    [
        pytest.param([0.0] * 8, [0.2, 0.4, 0.8, 1.6, 3.2, 6.0, 6.0, 6.0], id="short watches"),
        pytest.param([0.0, 0.0, 300.0, 0.0], [0.2, 0.4, 0.2], id="one long watch"),
    ],
)
async def test_a_watch_that_ends_at_once_is_restarted_with_back_off(
    monkeypatch: pytest.MonkeyPatch,
    ending: list[Body | RequestError],
    lasts: list[float],
    pauses: list[float],
) -> None:
    clock = Sleeper()
    monkeypatch.setattr(reflector, "RETRY_SECONDS", (0.2, 6.0))
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    await run(made(clock=clock), Brief(clock, ending, list(lasts)))
    assert clock.slept == pytest.approx(pauses)


async def test_a_streaming_list_then_a_watch_from_its_version() -> None:
    api, under_test = FakeApi(streams=True), made()
    listed: list[Body | RequestError] = [
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


async def test_objects_missing_from_a_later_stream_are_removed() -> None:
    api, under_test = FakeApi(streams=True), made()
    gone = RequestError(410, "Expired", "too old")
    api.watches = [
        [event("ADDED", body("1")), event("ADDED", body("2")), END],
        [gone],
        [event("ADDED", body("2")), END],
    ]
    told = await run(under_test, api)
    assert uids(under_test) == {"2"}
    # One change for the first list and one for the removed object; unchanged ones are not reported.
    assert len(told) == 3 - 1


async def test_a_stream_that_ends_early_is_retried() -> None:
    api, under_test = FakeApi(streams=True), made()
    broken = RequestError(503, "ServiceUnavailable", "no")
    api.lists = [broken]  # the pages that replace the stream fail too
    api.watches = [
        [event("ADDED", body("1")), event("DELETED", body("1", 3))],
        [event("ADDED", body("2")), END],
    ]
    told = await run(under_test, api)
    assert uids(under_test) == {"2"}
    assert under_test.listed
    # Changes in the failed list are reported too: the next list finds nothing new in them.
    assert len(told) == 2


async def test_if_the_stream_fails_pages_are_used() -> None:
    api, under_test = FakeApi(streams=True), made()
    api.watches = [[event("ADDED", body("1"))]]
    api.lists = [page(9, body("2"))]
    await run(under_test, api)
    assert uids(under_test) == {"2"}


async def test_an_object_comes_back_when_its_label_is_restored() -> None:
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
async def test_a_list_older_than_what_was_shown_raises(
    streams: bool,
) -> None:
    """etcd was restored from a backup, so no watch will deliver the known versions."""
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
            [RequestError(0, "reset", "")],
            [event("ADDED", body("1", 4)), older],
        ]
    else:
        api.lists = [page(9, body("1")), page(7, body("1", 4))]
        api.watches = [[event("MODIFIED", body("1", 12))], [RequestError(0, "reset", "")]]
    with pytest.raises(WentBackError, match="things: resource version went back from 12 to 7"):
        await under_test.run(api.api())
