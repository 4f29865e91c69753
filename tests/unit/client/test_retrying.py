"""H12, R2: backoff and messages of a client whose watches do not last. In virtual time."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import aiohttp
import pytest
from dijob.client import Unreachable
from dijob.client.connection import ClientRequest, Json
from dijob.client.errors import ApiError
from dijob.client.retrying import log_failure
from dijob.client.watching import watch_objects

pytestmark = pytest.mark.virtual_time
PATH = "/apis/g/v1/namespaces/default/dijobs"
JOB = {"metadata": {"name": "test", "resourceVersion": "7"}}


class Broken:
    """An apiserver behind a proxy that breaks watches. `body` is the content of each watch."""

    def __init__(self, body: Callable[[], AsyncIterator[bytes]]) -> None:
        self.body, self.sent = body, Counter[str]()
        self.trouble: ApiError | None = None

    async def json(self, call: ClientRequest) -> Json:
        self.sent["list"] += 1
        return {"items": [deepcopy(JOB)], "metadata": {"resourceVersion": "7"}}

    @asynccontextmanager
    async def open(self, call: ClientRequest, silence: float) -> AsyncIterator[Any]:
        self.sent["watch"] += 1
        if self.trouble:
            raise self.trouble
        yield self
        await asyncio.sleep(0)

    @property
    def content(self) -> AsyncIterator[bytes]:
        return self.body()


async def ended() -> AsyncIterator[bytes]:
    for line in tuple[bytes, ...]():
        yield line


async def expired() -> AsyncIterator[bytes]:
    yield json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}).encode()


async def html() -> AsyncIterator[bytes]:
    yield b"<html>Log in</html>"


async def odd() -> AsyncIterator[bytes]:
    yield b'["what"]'


async def reset() -> AsyncIterator[bytes]:
    raise aiohttp.ClientConnectionError("reset by peer")
    yield b""


async def replayed() -> AsyncIterator[bytes]:
    yield json.dumps({"type": "MODIFIED", "object": JOB}).encode()


async def lasting() -> AsyncIterator[bytes]:
    await asyncio.sleep(240)
    for line in tuple[bytes, ...]():
        yield line


async def seen(api: Any, seconds: float, reports: list[str] | None = None) -> int:
    """Return how often the objects are yielded within these seconds."""
    count = 0
    report = log_failure if reports is None else reports.append
    try:
        async with asyncio.timeout(seconds):
            async for _ in watch_objects(api, PATH, report=report):
                count += 1
    except TimeoutError:
        pass
    return count


KINDS = [ended, expired, html, odd, reset, replayed]


@pytest.mark.parametrize("body", KINDS)
async def test_watches_that_end_at_once_are_repeated_with_backoff(
    body: Callable[[], AsyncIterator[bytes]],
) -> None:
    api = Broken(body)
    assert await seen(api, 5) == 1, "the same objects are shown once"
    assert api.sent["list"] + api.sent["watch"] <= 8, "920 watches per second before"
    await seen(api, 600)
    assert api.sent["watch"] < 40


@pytest.mark.parametrize("status", [410, 429, 500, 504])
async def test_rejected_watches_are_repeated_with_backoff(status: int) -> None:
    api = Broken(ended)
    api.trouble = ApiError(status, "Refused", "no")
    assert await seen(api, 5) == 1
    assert api.sent["list"] <= 4


async def test_repeated_failures_are_reported_after_some_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    await seen(Broken(html), 2)
    assert not caplog.messages
    await seen(Broken(html), 8)
    (said,) = caplog.messages
    assert said == (
        f"the watch of {PATH} keeps failing and is being retried:"
        " the response is not a watch event: <html>Log in</html>"
    )


async def test_a_watch_that_lasts_ends_the_report() -> None:
    bodies = [lasting, *[ended] * 4]
    api, reports = Broken(lambda: (bodies.pop() if bodies else lasting)()), list[str]()
    await seen(api, 1000, reports)
    assert [bool(one) for one in reports] == [True, False]
    assert api.sent["list"] == 5, "after a watch that has lasted the next one begins at its end"


async def test_the_patience_starts_at_the_first_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch of a collection without events for a minute failed as soon as it ended."""
    api, loop = Broken(lasting), asyncio.get_running_loop()

    async def away(call: ClientRequest) -> Json:
        raise Unreachable("away")

    def goes() -> None:
        api.trouble = ApiError(503, "Away", "away")
        monkeypatch.setattr(api, "json", away)

    loop.call_later(100, goes)
    with pytest.raises(Unreachable, match="away"):
        await seen(api, 1000)
    assert 300 < loop.time() < 400
