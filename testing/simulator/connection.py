"""The connection of the operator's Api to the simulated apiserver, with faults."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import format_datetime
from types import MappingProxyType
from typing import Any, cast

import aiohttp
from dijob.kube.api import Api
from dijob.kube.connection import OperatorConnection, OperatorRequest
from dijob.process.clock import SYSTEM, Clock
from pydantic_core import to_json

from simulator.apiserver import ApiServer
from simulator.objects import KINDS, Body, No, Selector, Target, only_metadata
from simulator.watches import Watch, Watches


@dataclass(frozen=True)
class Request:
    """One request of the operator."""

    method: str
    target: Target
    query: Mapping[str, str]
    body: Mapping[str, Any]
    accept: str

    @property
    def writes(self) -> bool:
        """Whether the request changes the state of the cluster; an event or a dry run does not."""
        about_state = self.target.plural != "events" and "dryRun" not in self.query
        return self.method != "GET" and about_state

    def about(self, method: str, plural: str = "") -> bool:
        """Whether the request has this method ("": any) and is about this kind ("": any)."""
        watching = "WATCH" if self.query.get("watch") else self.method
        return method in ("", watching) and plural in ("", self.target.plural)


@dataclass
class Fault:
    """The status code for the next requests of a kind; 0 breaks the connection.

    With `done`, the apiserver executes the request, and only its response is lost.
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
    """All connections between the operators and the apiserver.

    `fuse` is the number of writes that may pass. If `kills` is true, the operator is killed at the
    next write. Otherwise, that write and all later ones wait until `go_on` is called. `later` is
    how many writes are still to be delayed, so that the writes that follow them arrive first.
    `judge` checks each write before it is executed; `problems` are its findings. `dated` says
    whether responses have a Date header. Discovery does not show the kinds in `unserved`.
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
    unserved: set[str] = field(default_factory=set)

    def go_on(self) -> None:
        """Release the writes that are held because `fuse` has run out."""
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
    """One operator's connection, which ends with the operator."""

    def __init__(self, server: ApiServer, watches: Watches, line: Line) -> None:
        self.dead = False
        self._server = server
        self._watches = watches
        self._line = line

    def api(self, clock: Clock = SYSTEM) -> Api:
        return Api(cast(OperatorConnection, self), clock)

    async def close(self) -> None:
        self.dead = True

    async def request(self, call: OperatorRequest, timeout: aiohttp.ClientTimeout) -> "Answer":
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
            if request.method != "GET" and "dryRun" not in query:
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
        """Wait until the request may be sent. If the operator was killed, wait forever."""
        line = self._line
        await asyncio.sleep(0)  # a response always takes at least one turn of the loop
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
            # The work queue would treat an exception as a failed reconciliation.
            self._line.problems.append(error)
            raise

    def _answered(self, request: Request) -> bytes:
        target, server = request.target, self._server
        if not target.plural:
            return to_json(
                {"resources": [{"name": one} for one in KINDS if one not in self._line.unserved]}
            )
        if request.method == "GET" and not target.name:
            return self._listed(request)
        if request.method == "GET":
            return self._watches.encoded(server.get(target))
        if "dryRun" in request.query:
            body = server.check(target, request.body)
        elif request.method == "POST":
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
    """A response with the interface of aiohttp. Its body is either bytes or a watch."""

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
