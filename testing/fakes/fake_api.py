"""An apiserver in memory for the controller's tests: scripted responses, recorded requests."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from dijob.kube.api import Api, RequestError, Stream
from dijob.kube.availability import Availability
from dijob.kube.throttle import Throttle
from dijob.process.clock import SYSTEM, Clock

Body = dict[str, Any]


@dataclass
class FakeApi:
    """Lists and watches come from scripts, one entry per request. Writes are recorded. After the
    end of a script, nothing is returned.
    """

    lists: list[Body | RequestError] = field(default_factory=list)
    watches: list[list[Body | RequestError]] = field(default_factory=list)
    rejections: list[RequestError | None] = field(default_factory=list)
    calls: list[tuple[str, str, Body]] = field(default_factory=list)
    watched: list[Stream] = field(default_factory=list)
    availability: Availability = field(default_factory=Availability)
    clock: Clock = SYSTEM
    throttle: Throttle = field(default_factory=Throttle)
    streams: bool = False  # whether it supports streaming lists

    def api(self) -> Api:
        return cast(Api, self)

    async def get(self, path: str, **query: str) -> Body:
        self.calls.append(("GET", path, dict(query)))
        answer = self.lists.pop(0)
        if isinstance(answer, RequestError):
            raise answer
        return answer

    async def watch(self, stream: Stream) -> AsyncGenerator[Body]:
        if stream.initial and not self.streams:
            raise RequestError(
                422, "Invalid", "sendInitialEvents is forbidden unless the WatchList gate is on"
            )
        self.watched.append(stream)
        if not self.watches:
            raise Over
        for event in self.watches.pop(0):
            if isinstance(event, RequestError):
                raise event
            yield event

    async def create(self, path: str, body: Body, *, whole: bool = False) -> Body:
        return self._write("POST", path, body)

    async def patch(self, path: str, body: Any, **_: Any) -> Body:
        return self._write("PATCH", path, body() if callable(body) else body)

    async def delete(
        self, path: str, uid: str, *, version: Callable[[], str] = str, **more: Any
    ) -> None:
        self._write("DELETE", path, {"uid": uid, "version": version(), **more})

    def _write(self, method: str, path: str, body: Body) -> Body:
        self.calls.append((method, path, body))
        if self.rejections and (rejection := self.rejections.pop(0)):
            raise rejection
        return body


class Over(Exception):
    """The script has ended. Raised to stop loops that would run forever."""
