"""Repeated events are counted, even if the apiserver has deleted the event, or if a former leader
has posted it.
"""

from dijob.api.model import Metadata
from dijob.controller.write.recorder import Recorder
from dijob.core.actions import Event
from dijob.kube.api import RequestError
from fakes.fake_api import FakeApi

JOB = Metadata(name="job", namespace="ns", uid="u1")
LOST = Event("PodLost", "rank 1: its pod is gone")
GONE = RequestError(404, "NotFound", "events not found")
THERE = RequestError(409, "AlreadyExists", "events already exists")


async def told(api: FakeApi, times: int = 1) -> list[tuple[str, int | None]]:
    """Post the event some times. Return the requests, each with the count that it writes."""
    recorder = Recorder(api.api())
    for _ in range(times):
        await recorder.tell(JOB, LOST)
    return [(method, body.get("count")) for method, _, body in api.calls]


async def test_an_event_that_the_apiserver_deleted_is_posted_again() -> None:
    api = FakeApi(refusals=[None, GONE])
    assert await told(api, 3) == [("POST", 1), ("PATCH", 2), ("POST", 1), ("PATCH", 2)]


async def test_the_count_of_a_former_leaders_event_is_continued() -> None:
    api = FakeApi(refusals=[THERE], lists=[{"count": 5}])
    assert await told(api, 2) == [("POST", 1), ("GET", None), ("PATCH", 6), ("PATCH", 7)]
    name = api.calls[0][2]["metadata"]["name"]
    assert api.calls[1][1] == f"/api/v1/namespaces/ns/events/{name}"
    assert api.calls[2][2].keys() == {"count", "lastTimestamp"}


async def test_an_event_that_is_deleted_during_a_post_is_posted_the_next_time() -> None:
    api = FakeApi(refusals=[THERE], lists=[GONE])
    assert await told(api, 2) == [("POST", 1), ("GET", None), ("POST", 1)]


async def test_an_event_that_was_not_counted_is_counted_the_next_time() -> None:
    api = FakeApi(refusals=[None, RequestError(0, "", "no answer")])
    assert await told(api, 3) == [("POST", 1), ("PATCH", 2), ("PATCH", 2)]
