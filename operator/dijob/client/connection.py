"""Requests to one apiserver.

A request carries JSON, and its response is JSON, a stream of bytes or a WebSocket. Every failure is
raised as one of the errors in errors.py. The generated methods of the kubernetes package are not
used: they drop unknown fields, hide the apiserver's message, and merge the stdout and stderr of
exec (docs/decisions/032).
"""

import asyncio
import base64
import io
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.rest import RESTClientObject

from dijob import __version__
from dijob.client.errors import Unreachable, api_error
from dijob.client.kubeconfig import Target

Json = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
# The field manager of server-side apply (metadata.managedFields). A stable name lets a later
# `apply` remove fields that an earlier `apply` set.
MANAGER: Final = "kubectl-dijob"
# Twice the longest timeout of an admission webhook (30 s). So the webhook's error arrives before
# the client stops waiting.
_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 10.0
# The number of retries after a 429, and the longest pause in seconds before a retry. A user is
# waiting for the command, so it must fail within half a minute.
_ASKED_AGAIN: Final = 5
_LONGEST_PAUSE: Final = 5.0
# One line of a watch is one object, and can be larger than aiohttp's default buffer of 64 KiB.
_BUFFER_BYTES: Final = 2**21
# Only v5 can close stdin, and commands such as `tar x` wait until stdin is closed. v4 is for older
# apiservers.
_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")


@dataclass(frozen=True)
class ClientRequest:
    """One request. A key may occur several times in `query`."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: tuple[tuple[str, str], ...] = ()
    content: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        """The path with the query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass
class ClientConnection:
    """A connection to one apiserver, used with `async with`."""

    target: Target
    _session: aiohttp.ClientSession = field(init=False)

    async def __aenter__(self) -> "ClientConnection":
        settings = self.target.settings
        self._session = aiohttp.ClientSession(
            # No limit: following the logs of a large job keeps a connection open for each pod.
            connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(settings).ssl_context),
            headers=[
                ("User-Agent", f"{MANAGER}/{__version__}"),
                *self.target.impersonation,
            ],
            proxy=settings.proxy,
            # As with kubectl, HTTPS_PROXY is used only if the kubeconfig names no proxy.
            trust_env=settings.proxy is None,
            read_bufsize=_BUFFER_BYTES,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()
        # Aborted connections are closed in the next iterations of the event loop. Without this
        # pause, an event loop that is closed now would warn about unclosed transports.
        for _ in range(2):
            await asyncio.sleep(0)

    async def json(self, call: ClientRequest) -> Json:
        """Return the response, a JSON object. Raises ApiError and Unreachable."""
        async with self.open(call, _SECONDS) as response:
            with _network(self.target):
                answer = await response.json(content_type=None)
                if not isinstance(answer, dict):
                    raise ValueError(f"response to {call.method} {call.path} is not an object")
        found: Json = answer
        return found

    async def read_token(self) -> str:
        """Return the bearer token of the kubeconfig's user; "" if the user has another kind of
        credential. Also return "" if the user impersonates another user, because the token does not
        belong to the impersonated user.
        """
        if self.target.impersonation:
            return ""
        given = await self.target.settings.get_api_key_with_prefix("BearerToken") or ""
        # Instead of a token, the value can contain a user name and a password, with another scheme.
        scheme, _, token = str(given).partition(" ")
        return token if scheme.lower() == "bearer" else ""

    @asynccontextmanager
    async def open(
        self, call: ClientRequest, seconds: float | None = None, silence: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and return the response before its body is read.

        The body must be complete within `seconds`, without a pause longer than `silence` seconds.
        None means no limit. Raises ApiError and Unreachable.
        """
        bound = aiohttp.ClientTimeout(seconds, sock_read=silence, sock_connect=_CONNECT_SECONDS)
        response = await self._request(call, bound)
        if response.status == HTTPStatus.UNAUTHORIZED:
            # Tokens of exec plugins expire, often within an hour. So after a 401, the kubeconfig is
            # read again, once.
            response.release()
            self.target = await self.target.again()
            response = await self._request(call, bound)
        for _ in range(_ASKED_AGAIN):
            if response.status != HTTPStatus.TOO_MANY_REQUESTS:
                break
            # A 429 means that the request had no effect, so even a write can be repeated safely.
            # Apiservers respond with 429 under load, and shortly after a CRD has been created.
            response.release()
            await asyncio.sleep(_seconds_until_retry(response.headers.get("Retry-After", "")))
            response = await self._request(call, bound)
        async with response:
            if response.status >= 400:
                with _network(self.target):
                    text = await response.text(errors="replace")
                raise api_error(response.status, _decode_body(text), f"{call.method} {call.path}")
            try:
                yield response
            finally:
                _hang_up(response)

    async def _request(
        self,
        call: ClientRequest,
        bound: aiohttp.ClientTimeout,
        more: Mapping[str, str] | None = None,
    ) -> aiohttp.ClientResponse:
        headers = await self._headers() | dict(call.headers) | dict(more or {})
        if call.body is not None:
            headers["Content-Type"] = call.content
        with _network(self.target):
            return await self._session.request(
                call.method,
                self.target.settings.host + call.url,
                headers=headers,
                # If the body is a stream, aiohttp sends it in pieces.
                data=None if call.body is None else io.BytesIO(json.dumps(call.body).encode()),
                timeout=bound,
                server_hostname=self.target.settings.tls_server_name,
            )

    @asynccontextmanager
    async def socket(self, call: ClientRequest) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket, which `exec` needs. Raises ApiError and Unreachable."""
        try:
            try:
                opened = await self._shake_hands(call)
            except aiohttp.WSServerHandshakeError as error:
                if error.status != HTTPStatus.UNAUTHORIZED:
                    raise
                self.target = await self.target.again()
                opened = await self._shake_hands(call)
        except aiohttp.WSServerHandshakeError as error:
            raise await self._refusal(call, error) from error
        async with opened:
            yield opened

    async def _shake_hands(self, call: ClientRequest) -> aiohttp.ClientWebSocketResponse:
        with _network(self.target):
            return await self._session.ws_connect(
                self.target.settings.host + call.url,
                protocols=_PROTOCOLS,
                headers=await self._headers(),
                max_msg_size=0,
                # Proxies close a connection on which nothing is sent, for example while a command
                # is computing.
                heartbeat=30,
                server_hostname=self.target.settings.tls_server_name,
            )

    async def _refusal(
        self, call: ClientRequest, error: aiohttp.WSServerHandshakeError
    ) -> Exception:
        """Return the error for a rejected WebSocket.

        aiohttp's error lacks the body of the response, and thus the apiserver's message. So the
        same request is sent once more as plain HTTP.
        """
        hello = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode(),
            "Sec-WebSocket-Protocol": ",".join(_PROTOCOLS),
        }
        what, text = f"{call.method} {call.path}", ""
        response = await self._request(call, aiohttp.ClientTimeout(_SECONDS), hello)
        async with response:
            if response.status >= 400:
                with _network(self.target):
                    text = await response.text(errors="replace")
        return api_error(error.status, _decode_body(text) if text else f"{error.message}", what)

    async def _headers(self) -> dict[str, str]:
        """Return the headers with the current credentials.

        They are computed for each request, because a token from a file or an exec plugin can be
        replaced while the connection is open.
        """
        settings = self.target.settings
        # kubectl sends the same value. A kubelet rejects an exec request whose Accept header
        # allows only JSON.
        headers = {"Accept": "application/json, */*"}
        if token := await settings.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = token
        elif settings.username and (basic := settings.get_basic_auth_token()):
            headers["Authorization"] = basic
        return headers


class _network:
    """Turn network errors into Unreachable, except a rejected WebSocket handshake.

    If a handshake is rejected, the apiserver was reached, so the error is an ApiError (`_refusal`).
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, aiohttp.WSServerHandshakeError):
            return
        if isinstance(error, (aiohttp.ClientError, OSError, TimeoutError, ValueError)):
            # The exception for a timeout has no text.
            why = " ".join(str(error).split()) or "no response in time"
            raise Unreachable(
                f"cannot reach the cluster at {self._target.settings.host}: {why}"
                f" (from {self._target.source})"
            ) from error


def _seconds_until_retry(told: str) -> float:
    """Return the seconds until a retry: Retry-After up to a limit, or 1 if it is not a number."""
    return min(float(told), _LONGEST_PAUSE) if told.isdecimal() else 1.0


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Abort the connection of a response that has not ended, such as a watch or a followed log.

    A regular close would wait for the rest of the body, which may never come.
    """
    if not response.content.at_eof() and response.connection and response.connection.transport:
        response.connection.transport.abort()


def _decode_body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
