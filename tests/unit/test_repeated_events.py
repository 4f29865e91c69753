"""An event that repeats is seen again: also where the apiserver has dropped it meanwhile, and where
an operator before this one has told it.
"""

from dijob.api.model import Metadata
from dijob.core.actions import Event
from dijob.shell.api import ApiError
from dijob.shell.recorder import Recorder
from unit.fake_api import FakeApi

JOB = Metadata(name="job", namespace="ns", uid="u1")
LOST = Event("PodLost", "rank 1: its pod is gone")
GONE = ApiError(404, "NotFound", "events not found")
THERE = ApiError(409, "AlreadyExists", "events already exists")


async def told(api: FakeApi, times: int = 1) -> list[tuple[str, int | None]]:
    """Tell it so often; the calls, each with the count that it writes."""
    recorder = Recorder(api.api())
    for _ in range(times):
        await recorder.tell(JOB, LOST)
    return [(method, body.get("count")) for method, _, body in api.calls]


async def test_what_the_apiserver_has_dropped_is_told_anew() -> None:
    api = FakeApi(refusals=[None, GONE])
    assert await told(api, 3) == [("POST", 1), ("PATCH", 2), ("POST", 1), ("PATCH", 2)]


async def test_what_an_operator_before_has_told_is_counted_on() -> None:
    api = FakeApi(refusals=[THERE], lists=[{"count": 5}])
    assert await told(api, 2) == [("POST", 1), ("GET", None), ("PATCH", 6), ("PATCH", 7)]
    name = api.calls[0][2]["metadata"]["name"]
    assert api.calls[1][1] == f"/api/v1/namespaces/ns/events/{name}"
    assert api.calls[2][2].keys() == {"count", "lastTimestamp"}


async def test_what_is_dropped_in_between_is_told_the_next_time() -> None:
    api = FakeApi(refusals=[THERE], lists=[GONE])
    assert await told(api, 2) == [("POST", 1), ("GET", None), ("POST", 1)]


async def test_what_is_not_counted_is_counted_the_next_time() -> None:
    api = FakeApi(refusals=[None, ApiError(0, "", "no answer")])
    assert await told(api, 3) == [("POST", 1), ("PATCH", 2), ("PATCH", 2)]
