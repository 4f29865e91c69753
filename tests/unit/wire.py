"""What the operator's Api takes for its connection: the way to the simulated apiserver, and
what goes wrong.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import format_datetime
from types import MappingProxyType
from typing import Any, cast

import aiohttp
from dijob.shell.api import Api
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.connection import Call, Connection
from pydantic_core import to_json
from unit.apiserver import ApiServer
from unit.objects import Body, No, Selector, Target, only_metadata
from unit.watches import Watch, Watches


@dataclass(frozen=True)
class Request:
    """One call of the operator."""

    method: str
    target: Target
    query: Mapping[str, str]
    body: Mapping[str, Any]
    accept: str

    @property
    def writes(self) -> bool:
        """Whether it changes what there is: an event is no state."""
        return self.method != "GET" and self.target.plural != "events"

    def about(self, method: str, plural: str = "") -> bool:
        """Whether it is a call of this method ("": any) about this kind ("": any)."""
        watching = "WATCH" if self.query.get("watch") else self.method
        return method in ("", watching) and plural in ("", self.target.plural)


@dataclass
class Fault:
    """What is answered to the next calls of a kind: a status (0: the connection breaks).

    `done`: the apiserver has done what was asked for, and its answer is lost.
    """

    method: str
    plural: str
    status: int
    times: int = 1
    done: bool = False
    message: str = "put in by the test"

    def raised(self) -> Exception:
        return (
            No(self.status, self.message)
            if self.status
            else aiohttp.ClientConnectionError(self.message)
        )


@dataclass
class Line:
    """What goes on between the operators and the apiserver.

    `fuse`: so many writes go through, then the operator is killed (`kills`) or waits until it is
    let go on. `later`: so many of the next writes come after those that follow them. `judge` sees
    each write before it is done, `problems` are what it has found. `dated`: responses have their
    Date header, which a proxy may remove.
    """

    judge: Callable[[Request], None] = lambda request: None
    faults: list[Fault] = field(default_factory=list)
    fuse: int = 1_000_000
    kills: bool = True
    later: int = 0
    held: asyncio.Event | None = None
    calls: list[Request] = field(default_factory=list)
    problems: list[BaseException] = field(default_factory=list)
    dated: bool = True

    def go_on(self) -> None:
        """What waits before a write is let through."""
        if self.held is not None:
            self.held.set()
            self.held = None

    def fault(self, request: Request) -> Fault | None:
        found = next(
            (fault for fault in self.faults if request.about(fault.method, fault.plural)), None
        )
        if found is not None:
            found.times -= 1
            if found.times <= 0:
                self.faults.remove(found)
        return found


class Wire:
    """One operator's connection; it dies with it."""

    def __init__(self, server: ApiServer, watches: Watches, line: Line) -> None:
        self.dead = False
        self._server = server
        self._watches = watches
        self._line = line

    def api(self, clock: Clock = SYSTEM) -> Api:
        return Api(cast(Connection, self), clock)

    async def close(self) -> None:
        self.dead = True

    async def request(self, call: Call, timeout: aiohttp.ClientTimeout) -> "Answer":
        query = dict(call.query)
        try:
            body = cast(Body, call.body or {})
            request = Request(call.method, Target.of(call.path), query, body, call.accept)
            await self._pass(request)
            fault = self._line.fault(request)
            if fault and not fault.done:
                raise fault.raised()
            if query.get("watch"):
                silence = timeout.sock_read or 0.0
                return self._answer(self._watches.begin(selector(request), query, silence))
            if request.method != "GET":
                self._judge(request)
            answer = self._answered(request)
            if fault:
                raise fault.raised()
            return self._answer(answer)
        except No as error:
            return Answer(error.status, to_json(error.body))

    def _answer(self, body: bytes | Watch) -> "Answer":
        date = {"Date": format_datetime(self._server.now(), usegmt=True)}
        return Answer(200, body, date if self._line.dated else {})

    async def _pass(self, request: Request) -> None:
        """Wait for one's turn: for ever, once the operator is dead."""
        line = self._line
        await asyncio.sleep(0)  # no answer comes at once
        if request.writes and line.later > 0:
            line.later -= 1
            await asyncio.sleep(0.001)
        if request.writes and not self.dead:
            line.fuse -= 1
            if line.fuse == -1 and line.kills:
                self.dead = True
            elif line.fuse == -1 or line.held is not None:
                line.held = line.held or asyncio.Event()
                await line.held.wait()
        if self.dead:
            await asyncio.get_running_loop().create_future()
        line.calls.append(request)

    def _judge(self, request: Request) -> None:
        try:
            self._line.judge(request)
        except BaseException as error:
            # The work queue would take it for a pass that has failed.
            self._line.problems.append(error)
            raise

    def _answered(self, request: Request) -> bytes:
        target, server = request.target, self._server
        if request.method == "GET" and not target.name:
            return self._listed(request)
        if request.method == "GET":
            return self._watches.encoded(server.get(target))
        if request.method == "POST":
            body = server.create(target, request.body)
        elif request.method == "PATCH":
            body = server.patch(target, request.body)
        else:
            body = server.delete(target, request.body)
        return (
            to_json(only_metadata(body))
            if "PartialObject" in request.accept
            else self._watches.encoded(body)
        )

    def _listed(self, request: Request) -> bytes:
        limit, token = int(request.query.get("limit", 0)), request.query.get("continue", "")
        items, version, rest = self._server.page(selector(request), limit, token)
        if "PartialObject" in request.accept:
            items = [only_metadata(body) for body in items]
        return to_json(
            {"metadata": {"resourceVersion": str(version), "continue": rest}, "items": items}
        )


def selector(request: Request) -> Selector:
    query = request.query
    return Selector(request.target, query.get("labelSelector", ""), query.get("fieldSelector", ""))


class Answer:
    """An answer, as aiohttp gives it: a text, or a watch."""

    def __init__(
        self, status: int, body: bytes | Watch, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        assert isinstance(self._body, bytes)
        return self._body

    @property
    def content(self) -> Watch:
        assert isinstance(self._body, Watch)
        return self._body

    def close(self) -> None:
        if isinstance(self._body, Watch):
            self._body.close()
