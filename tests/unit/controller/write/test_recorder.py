"""Events: one object per message with a count of repeats, even if the apiserver has deleted the
event, or if a former leader has posted it. A failed post fails nothing else.
"""

import pytest
from dijob import names
from dijob.api.model import Metadata
from dijob.controller.write.recorder import REMEMBERED, Recorder
from dijob.core.actions import Event
from dijob.kube.api import RequestError
from fakes.fake_api import FakeApi

JOB = Metadata(name="job", namespace="ns", uid="u1")
LOST = Event("PodLost", "rank 1: its pod is gone")
GONE = RequestError(404, "NotFound", "events not found")
THERE = RequestError(409, "AlreadyExists", "events already exists")


async def test_an_event_has_its_object_reason_and_message() -> None:
    api = FakeApi()
    await Recorder(api.api()).tell(JOB, LOST)
    ((method, path, body),) = api.calls
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/events")
    assert (body["type"], body["reason"], body["message"]) == ("Warning", "PodLost", LOST.message)
    assert body["involvedObject"]["uid"] == "u1"
    assert body["involvedObject"]["kind"] == names.KIND
    assert body["metadata"]["namespace"] == "ns"
    assert body["count"] == 1


async def test_good_news_are_normal_events_and_long_messages_are_cut() -> None:
    api = FakeApi()
    await Recorder(api.api()).tell(JOB, Event("Running", "x" * 5000, warning=False))
    assert api.calls[0][2]["type"] == "Normal"
    assert len(api.calls[0][2]["message"]) == 1024


async def test_a_repeated_event_is_counted() -> None:
    api = FakeApi()
    recorder = Recorder(api.api())
    for _ in range(3):
        await recorder.tell(JOB, LOST)
    assert [call[0] for call in api.calls] == ["POST", "PATCH", "PATCH"]
    assert api.calls[1][1] == f"/api/v1/namespaces/ns/events/{api.calls[0][2]['metadata']['name']}"
    assert [call[2]["count"] for call in api.calls] == [1, 2, 3]


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (JOB, Event("PodLost", "rank 2: its pod is gone")),
        (JOB, Event("PodDeleted", LOST.message)),
        (Metadata(name="job", namespace="ns", uid="u2"), LOST),
    ],
    ids=["message", "reason", "namesake"],
)
async def test_different_events_are_not_merged(job: Metadata, event: Event) -> None:
    api = FakeApi()
    recorder = Recorder(api.api())
    await recorder.tell(JOB, LOST)
    await recorder.tell(job, event)
    assert [call[0] for call in api.calls] == ["POST", "POST"]
    assert len({call[2]["metadata"]["name"] for call in api.calls}) == 2


@pytest.mark.parametrize("status", [403, 0, 404], ids=["forbidden", "no-answer", "no-namespace"])
async def test_a_failure_to_post_an_event_fails_nothing_else(status: int) -> None:
    api = FakeApi(rejections=[RequestError(status, "", "")])
    recorder = Recorder(api.api())
    await recorder.tell(JOB, LOST)
    await recorder.tell(JOB, LOST)
    assert [call[0] for call in api.calls] == ["POST", "POST"]


async def test_the_number_of_remembered_events_is_limited() -> None:
    recorder = Recorder(FakeApi().api())
    for number in range(REMEMBERED + 10):
        await recorder.tell(JOB, Event("PodLost", str(number)))
    assert len(recorder._counts) == REMEMBERED


async def told(api: FakeApi, times: int = 1) -> list[tuple[str, int | None]]:
    """Post the event some times. Return the requests, each with the count that it writes."""
    recorder = Recorder(api.api())
    for _ in range(times):
        await recorder.tell(JOB, LOST)
    return [(method, body.get("count")) for method, _, body in api.calls]


async def test_an_event_that_the_apiserver_deleted_is_posted_again() -> None:
    api = FakeApi(rejections=[None, GONE])
    assert await told(api, 3) == [("POST", 1), ("PATCH", 2), ("POST", 1), ("PATCH", 2)]


async def test_the_count_of_a_former_leaders_event_is_continued() -> None:
    api = FakeApi(rejections=[THERE], lists=[{"count": 5}])
    assert await told(api, 2) == [("POST", 1), ("GET", None), ("PATCH", 6), ("PATCH", 7)]
    name = api.calls[0][2]["metadata"]["name"]
    assert api.calls[1][1] == f"/api/v1/namespaces/ns/events/{name}"
    assert api.calls[2][2].keys() == {"count", "lastTimestamp"}


async def test_an_event_that_is_deleted_during_a_post_is_posted_the_next_time() -> None:
    api = FakeApi(rejections=[THERE], lists=[GONE])
    assert await told(api, 2) == [("POST", 1), ("GET", None), ("POST", 1)]


async def test_an_event_that_was_not_counted_is_counted_the_next_time() -> None:
    api = FakeApi(rejections=[None, RequestError(0, "", "no answer")])
    assert await told(api, 3) == [("POST", 1), ("PATCH", 2), ("PATCH", 2)]
