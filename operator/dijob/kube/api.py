"""Requests to the apiserver: paths and JSON bodies in, JSON or a RequestError out.

All requests from the operator go through `Api`, except kopf's own watch of DIJobs. So `Api` can
limit the number of writes, hold writes back while another replica is the leader, and measure them.
Objects are plain JSON rather than typed models. A client with models copies every field of each
body, and this took half of the CPU time of a write (connection.py).
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from dijob.api.numbers import parse_natural
from dijob.kube import metrics
from dijob.kube.availability import Availability
from dijob.kube.connection import OperatorConnection, OperatorRequest
from dijob.kube.documents import parse_document
from dijob.kube.server_clock import ServerClock
from dijob.kube.slots import Slots
from dijob.kube.throttle import Throttle
from dijob.process.clock import SYSTEM, Clock

Json = dict[str, Any]

# Ask for only the metadata in the response to a write, so that the apiserver has less to encode
# (docs/decisions/003).
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
STRICT = {"fieldValidation": "Strict"}
DRY_RUN = {"dryRun": "All"}
# How many actions one reconciliation starts at once; slots.py limits the requests of all
# reconciliations.
CONCURRENT_WRITES = 32
# An admission webhook can delay each write by up to 30 s, usually in a few namespaces only. After
# BRISK_SECONDS, a write counts only against the limit of its own namespace. It no longer counts
# against the limit that all namespaces share (slots.py).
BRISK_SECONDS = 2.0
# Upper limit of the pause that a Retry-After header can request.
LONGEST_PAUSE_SECONDS = 30.0
TIMEOUT_SECONDS = 30


class RequestError(Exception):
    """A request failed, at the apiserver or on the way to it.

    `status` is the HTTP status code, or 0 if there was no response. `fields` are the object's
    fields that the error names.
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
        """Whether the apiserver is overloaded. A 429 from an admission webhook says nothing about
        the apiserver, and must not slow down the requests for other objects.
        """
        return self.status == 429 and not self.message.startswith("admission webhook")

    @property
    def too_large(self) -> bool:
        """Whether the object would be larger than etcd or the apiserver allows."""
        # The apiserver returns 500 for an object above etcd's limit, and 413 for a request above
        # its own limit. The text "larger than max" comes from the apiserver's etcd client.
        return self.status == 413 or (
            self.status == 500
            and ("request is too large" in self.message or "larger than max" in self.message)
        )

    @property
    def conflict(self) -> bool:
        """Whether the request failed because of a conflict. Either another object has the name, or
        the object has another version than the request expects.
        """
        # The apiserver answers a conflict with 409. The exception is a PATCH with another uid: the
        # apiserver treats it as an attempt to change the immutable uid, and answers 422.
        return self.status == 409 or (self.status == 422 and "metadata.uid" in self.fields)


@dataclass(frozen=True)
class Stream:
    """The parameters of a watch.

    `path` is the collection, `selector` a label selector, `version` the resourceVersion to start
    from. `initial` requests the current objects first, followed by a bookmark (KEP-3157,
    WatchList). The apiserver ends the watch after `seconds`. Bookmarks come once a minute, so the
    operator abandons a watch that has received no event for `silence` seconds.
    """

    path: str
    selector: str
    version: str = ""
    initial: bool = False
    seconds: int = 300
    silence: int = 70


async def _at_once() -> None:
    """Allow a write without waiting; the default if there is no leader election."""


class Api:
    """Requests by path. Writes wait for `permission` and for a slot (slots.py); reads wait for
    neither. `clock` is the apiserver's clock, estimated from its responses.
    """

    def __init__(
        self,
        connection: OperatorConnection,
        clock: Clock = SYSTEM,
        permission: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._connection = connection
        self._permission = permission
        self.availability = Availability(clock.monotonic)
        self.throttle = Throttle(clock)
        self._clock = self.clock = ServerClock(clock)
        self._slots = Slots(BRISK_SECONDS, clock)

    @staticmethod
    async def connect(
        kubeconfig: str | None,
        identity: str = "",
        permission: Callable[[], Awaitable[None]] = _at_once,
    ) -> "Api":
        """Connect with the pod's service account or, outside a cluster, with a kubeconfig."""
        return Api(await OperatorConnection.of(kubeconfig, identity), permission=permission)

    async def close(self) -> None:
        await self._connection.close()

    async def get(self, path: str, *, accept: str = "application/json", **query: str) -> Json:
        """Read an object or a list."""
        return await self.call(OperatorRequest("GET", path, query=query, accept=accept))

    async def read_bytes(self, path: str, seconds: float, **query: str) -> bytes:
        """Read a body that is not JSON, such as a log, within `seconds`."""
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=5)
        call = OperatorRequest("GET", path, query=query, accept="*/*")
        try:
            response = await self._send(call, timeout)
            return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RequestError(0, type(error).__name__, str(error)) from error

    async def create(
        self, path: str, body: Json, *, whole: bool = False, dry_run: bool = False
    ) -> Json:
        """Create an object with POST. An unknown field in `body` is an error. The response has only
        metadata unless `whole` is true. With `dry_run`, the API server only checks the object.
        """
        # By default, the apiserver silently drops unknown fields. A pod would then lack every field
        # whose name is misspelled in the user's template.
        accept = "application/json" if whole else METADATA_ONLY
        query = {**STRICT, **DRY_RUN} if dry_run else STRICT
        call = OperatorRequest("POST", path, body, query=query, accept=accept)
        return await self._write(path, lambda: call)

    async def patch(
        self, path: str, body: Json | Callable[[], Json], *, whole: bool = False
    ) -> Json:
        """Send a JSON merge patch. The response has only metadata unless `whole` is true.

        If `body` is a function, it is called when the request is sent. This may be much later,
        because the write first waits for a slot.
        """
        accept = "application/json" if whole else METADATA_ONLY
        made = body if callable(body) else lambda: body
        return await self._write(
            path, lambda: OperatorRequest("PATCH", path, made(), accept=accept)
        )

    async def delete(
        self,
        path: str,
        uid: str,
        *,
        grace: int | None = None,
        version: str | Callable[[], str] = "",
    ) -> None:
        """Delete the object with this uid, never another object with the same name.

        `grace` is the grace period in seconds: None for the object's own, 0 to remove the object
        without waiting for its node. With `version`, delete the object only if it still has this
        resourceVersion.
        """
        seconds = {} if grace is None else {"gracePeriodSeconds": grace}

        def call() -> OperatorRequest:
            known = version() if callable(version) else version
            only = {"uid": uid, **({"resourceVersion": known} if known else {})}
            return OperatorRequest(
                "DELETE", path, {"preconditions": only, **seconds}, accept=METADATA_ONLY
            )

        await self._write(path, call)

    async def _write(self, path: str, call: Callable[[], OperatorRequest]) -> Json:
        # Wait for permission before taking a slot. Otherwise, writes that wait for the lease would
        # hold all slots while the apiserver is unreachable. `_send` checks again, because the wait
        # for a slot can be long.
        await self._permission()
        async with self._slots.of(_path_namespace(path)):
            return await self.call(call())

    async def watch(self, stream: Stream) -> AsyncGenerator[Json]:
        """Yield the events of a watch until the apiserver ends it. Raise RequestError if the watch
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
            response = await self._send(OperatorRequest("GET", stream.path, query=query), timeout)
            try:
                async for line in response.content:
                    self.availability.beat()
                    yield await parse_document(line)
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise RequestError(0, type(error).__name__, str(error)) from error

    async def call(self, call: OperatorRequest) -> Json:
        """Send one request without waiting for a slot, and return the response."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS, sock_connect=5)
        try:
            response = await self._send(call, timeout)
            return await parse_document(await response.read()) or {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            metrics.API_REQUESTS.labels(call.method, "none").inc()
            raise RequestError(0, type(error).__name__, str(error)) from error

    async def _send(
        self, call: OperatorRequest, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
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
        self.availability.beat()
        # Only successful responses set the clock: an error may come from a proxy in between, which
        # writes its own time into the Date header.
        self.clock.answered(response.headers.get("Date", ""), began)
        return response

    def _wrote(self, began: float, took: float, again: str, error: RequestError | None) -> None:
        """Adjust the limit of concurrent writes after a response."""
        if error is not None and error.no_room:
            self.throttle.wrote(error.status, took)
            self._slots.refused(began, min(parse_natural(again) or 0, LONGEST_PAUSE_SECONDS))
        # A write that took BRISK_SECONDS or longer was most likely delayed by a webhook. That is a
        # problem in one namespace, so it must not reduce the limit for all namespaces.
        elif took < BRISK_SECONDS:
            self.throttle.wrote(200, took)
            self._slots.answered(began)


def _path_namespace(path: str) -> str:
    """Return the namespace in the path of an object or a collection, or ""."""
    return path.partition("/namespaces/")[2].partition("/")[0]


def error_of(status: int, data: bytes) -> RequestError:
    """Return the error in a response body: the apiserver's Status, or the plain text of a proxy in
    between.
    """
    try:
        body = json.loads(data)
        causes = (body.get("details") or {}).get("causes") or ()
        fields = frozenset(str(cause.get("field")) for cause in causes)
        return RequestError(
            status, str(body.get("reason") or ""), str(body.get("message") or ""), fields
        )
    except (ValueError, AttributeError):
        return RequestError(status, "", data[:500].decode(errors="replace"))
