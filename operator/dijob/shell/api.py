"""The one door to the apiserver: raw JSON, errors as one exception."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from dijob.api.numbers import natural
from dijob.shell import metrics
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.connection import Call, Connection
from dijob.shell.documents import parsed
from dijob.shell.pulse import Pulse
from dijob.shell.server_clock import ServerClock
from dijob.shell.slots import Slots
from dijob.shell.throttle import Throttle

Json = dict[str, Any]

# Answers of writes are wanted for their metadata only; the apiserver then has less to encode
# (docs/decisions/003).
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
STRICT = {"fieldValidation": "Strict"}
# What one pass asks for at once; slots.py says how much of it goes out.
CONCURRENT_WRITES = 32
# A webhook may hold up each write for 30 s, mostly in some namespaces only: what takes longer than
# this waits there, and the others go on.
BRISK_SECONDS = 2.0
# However long the apiserver asks to be left alone, it is asked again after this.
LONGEST_PAUSE_SECONDS = 30.0
TIMEOUT_SECONDS = 30


class ApiError(Exception):
    """The apiserver (or the way to it) said no.

    `status` is the HTTP code, 0 when there was no answer; `fields` are those of the object that it
    complained of.
    """

    def __init__(
        self, status: int, reason: str, message: str, fields: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.fields = fields

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def no_room(self) -> bool:
        """The apiserver cannot take more now; a webhook that says the same speaks for itself."""
        return self.status == 429 and not self.message.startswith("admission webhook")

    @property
    def conflict(self) -> bool:
        """Another object has the name, or another version of it is there: 409, save that a PATCH
        with another uid is taken for an attempt to change it (422).
        """
        return self.status == 409 or (self.status == 422 and "metadata.uid" in self.fields)


@dataclass(frozen=True)
class Stream:
    """A watch: the collection's path, its label selector, where to begin and how long it may last
    (seconds).

    `initial`: it begins with all that there is, and says by a bookmark when that was all (KEP-3157,
    WatchList).
    """

    path: str
    selector: str
    version: str = ""
    initial: bool = False
    seconds: int = 300
    silence: int = 70


async def _at_once() -> None:
    """Nobody has to be asked before a write."""


class Api:
    """Calls by path. Writes are bounded in number (slots.py) and wait for `permission`, reads do
    neither. `clock` is the API server's clock, as its responses show it.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock = SYSTEM,
        permission: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._connection = connection
        self._permission = permission
        self.pulse = Pulse(clock.monotonic)
        self.throttle = Throttle(clock)
        self._clock = self.clock = ServerClock(clock)
        self._slots = Slots(BRISK_SECONDS, clock)

    @staticmethod
    async def connect(
        kubeconfig: str | None,
        identity: str = "",
        permission: Callable[[], Awaitable[None]] = _at_once,
    ) -> "Api":
        """Connect as the pod's service account, or as a kubeconfig says (for runs outside a
        cluster).
        """
        return Api(await Connection.of(kubeconfig, identity), permission=permission)

    async def close(self) -> None:
        await self._connection.close()

    async def get(self, path: str, *, accept: str = "application/json", **query: str) -> Json:
        """Read an object or a list."""
        return await self.call(Call("GET", path, query=query, accept=accept))

    async def create(self, path: str, body: Json) -> Json:
        """POST; an unknown field anywhere in the object is an error (without this it is dropped in
        silence).
        """
        call = Call("POST", path, body, query=STRICT, accept=METADATA_ONLY)
        return await self._write(path, lambda: call)

    async def patch(
        self, path: str, body: Json | Callable[[], Json], *, whole: bool = False
    ) -> Json:
        """JSON merge patch; where `body` is a function, as it is when the patch goes out. The
        answer holds metadata only, unless `whole`.
        """
        accept = "application/json" if whole else METADATA_ONLY
        made = body if callable(body) else lambda: body
        return await self._write(path, lambda: Call("PATCH", path, made(), accept=accept))

    async def delete(
        self,
        path: str,
        uid: str,
        *,
        grace: int | None = None,
        version: str | Callable[[], str] = "",
    ) -> None:
        """Delete this very object (never a namesake). `grace` is its grace period in seconds; None:
        its own, 0: the object goes at once, without asking its node. `version`: only as long as it
        has this resourceVersion.
        """
        seconds = {} if grace is None else {"gracePeriodSeconds": grace}

        def call() -> Call:
            known = version() if callable(version) else version
            only = {"uid": uid, **({"resourceVersion": known} if known else {})}
            return Call("DELETE", path, {"preconditions": only, **seconds}, accept=METADATA_ONLY)

        await self._write(path, call)

    async def _write(self, path: str, call: Callable[[], Call]) -> Json:
        await self._permission()
        async with self._slots.of(_namespace(path)):
            return await self.call(call())

    async def watch(self, stream: Stream) -> AsyncGenerator[Json]:
        """Events of a watch as they come; ends when the apiserver ends it, raises ApiError when it
        breaks.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": stream.selector,
            "resourceVersion": stream.version,
            "timeoutSeconds": str(stream.seconds),
        }
        if stream.initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=stream.silence, sock_connect=5)
        try:
            response = await self._send(Call("GET", stream.path, query=query), timeout)
            try:
                async for line in response.content:
                    self.pulse.beat()
                    yield await parsed(line)
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ApiError(0, type(error).__name__, str(error)) from error

    async def call(self, call: Call) -> Json:
        """The answer to one request; it waits for no other."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS, sock_connect=5)
        try:
            response = await self._send(call, timeout)
            return await parsed(await response.read()) or {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            metrics.API_REQUESTS.labels(call.method, "none").inc()
            raise ApiError(0, type(error).__name__, str(error)) from error

    async def _send(self, call: Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if call.method != "GET":
            await self._permission()
        began = self._clock.monotonic()
        try:
            response = await self._connection.request(call, timeout)
        finally:
            took = self._clock.monotonic() - began
            if not call.watches:
                metrics.API_SECONDS.labels(call.verb, call.kind).observe(took)
        metrics.API_REQUESTS.labels(call.method, str(response.status)).inc()
        error = None
        if response.status >= 400:
            error = error_of(response.status, await response.read())
        if call.method != "GET":
            self._wrote(began, took, response.headers.get("Retry-After", ""), error)
        if error is not None:
            raise error
        self.pulse.beat()
        # An error may come from a proxy in between, with a Date of its own.
        self.clock.answered(response.headers.get("Date", ""), began)
        return response

    def _wrote(self, began: float, took: float, again: str, error: ApiError | None) -> None:
        """A write has been answered: so many writes at once get on, or are too many."""
        # What takes longer waits for a webhook, most likely, and is one namespace's affair.
        if error is not None and error.no_room:
            self.throttle.wrote(error.status, took)
            self._slots.refused(began, min(natural(again) or 0, LONGEST_PAUSE_SECONDS))
        elif took < BRISK_SECONDS:
            self.throttle.wrote(200, took)
            self._slots.answered(began)


def _namespace(path: str) -> str:
    """The namespace in the path of an object or a collection; "" where there is none."""
    return path.partition("/namespaces/")[2].partition("/")[0]


def error_of(status: int, data: bytes) -> ApiError:
    """The error in an answer: a Status, as the apiserver says it, or what stands between us and
    it.
    """
    try:
        answer = json.loads(data)
        causes = (answer.get("details") or {}).get("causes") or ()
        fields = frozenset(str(cause.get("field")) for cause in causes)
        return ApiError(
            status, str(answer.get("reason") or ""), str(answer.get("message") or ""), fields
        )
    except (ValueError, AttributeError):
        return ApiError(status, "", data[:500].decode(errors="replace"))
