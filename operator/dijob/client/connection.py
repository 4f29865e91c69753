"""Requests to one apiserver: JSON there, JSON or a stream back, errors as those of errors.py."""

import asyncio
import base64
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
# Whose fields these are, in metadata.managedFields.
MANAGER: Final = "kubectl-dijob"
_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 10.0
# After a 429.
_ASKED_AGAIN: Final = 5
_LONGEST_PAUSE: Final = 5.0
# An event of a watch can be larger than aiohttp's own buffer.
_BUFFER_BYTES: Final = 2**21
# v5 can tell the other side that the input has ended.
_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")


@dataclass(frozen=True)
class Call:
    """One request. `query` may have a key several times."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: tuple[tuple[str, str], ...] = ()
    content: str = "application/json"

    @property
    def url(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass
class Connection:
    """An open connection, to be used as `async with`."""

    target: Target
    _session: aiohttp.ClientSession = field(init=False)

    async def __aenter__(self) -> "Connection":
        settings = self.target.settings
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(settings).ssl_context),
            headers=[
                ("User-Agent", f"{MANAGER}/{__version__}"),
                *self.target.impersonation,
            ],
            proxy=settings.proxy,
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
        # Connections that were hung up close in the loop's next turns.
        for _ in range(2):
            await asyncio.sleep(0)

    async def json(self, call: Call) -> Json:
        """The answer as an object. Raises ApiError with the apiserver's sentence, Unreachable."""
        async with self.open(call, _SECONDS) as response:
            with _network(self.target):
                answer = await response.json(content_type=None)
                if not isinstance(answer, dict):
                    raise ValueError(f"the answer to {call.method} {call.path} is no object")
        found: Json = answer
        return found

    @asynccontextmanager
    async def open(
        self, call: Call, seconds: float | None = None, silence: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, its body still to be read within `seconds`, and with no pause of more than
        `silence` seconds (None: as long as it comes).
        """
        bound = aiohttp.ClientTimeout(seconds, sock_read=silence, sock_connect=_CONNECT_SECONDS)
        response = await self._request(call, bound)
        if response.status == HTTPStatus.UNAUTHORIZED:
            response.release()
            self.target = await self.target.again()
            response = await self._request(call, bound)
        for _ in range(_ASKED_AGAIN):
            if response.status != HTTPStatus.TOO_MANY_REQUESTS:
                break
            # Nothing was done yet: the apiserver is busy, or has just learned of the kind.
            response.release()
            await asyncio.sleep(_pause(response.headers.get("Retry-After", "")))
            response = await self._request(call, bound)
        async with response:
            if response.status >= 400:
                with _network(self.target):
                    text = await response.text(errors="replace")
                raise api_error(response.status, _parsed(text), f"{call.method} {call.path}")
            try:
                yield response
            finally:
                _hang_up(response)

    async def _request(
        self, call: Call, bound: aiohttp.ClientTimeout, more: Mapping[str, str] | None = None
    ) -> aiohttp.ClientResponse:
        headers = await self._headers() | dict(more or {})
        if call.body is not None:
            headers["Content-Type"] = call.content
        with _network(self.target):
            return await self._session.request(
                call.method,
                self.target.settings.host + call.url,
                headers=headers,
                data=None if call.body is None else json.dumps(call.body),
                timeout=bound,
                server_hostname=self.target.settings.tls_server_name,
            )

    @asynccontextmanager
    async def socket(self, call: Call) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket of the apiserver, as exec has it."""
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

    async def _shake_hands(self, call: Call) -> aiohttp.ClientWebSocketResponse:
        with _network(self.target):
            return await self._session.ws_connect(
                self.target.settings.host + call.url,
                protocols=_PROTOCOLS,
                headers=await self._headers(),
                max_msg_size=0,
                heartbeat=30,
                server_hostname=self.target.settings.tls_server_name,
            )

    async def _refusal(self, call: Call, error: aiohttp.WSServerHandshakeError) -> Exception:
        """Why a WebSocket was refused. aiohttp's error lacks the apiserver's sentence, so the same
        is asked for once more, and the answer is read.
        """
        hello = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode(),
            "Sec-WebSocket-Protocol": ",".join(_PROTOCOLS),
        }
        what, said = f"{call.method} {call.path}", ""
        response = await self._request(call, aiohttp.ClientTimeout(_SECONDS), hello)
        async with response:
            if response.status >= 400:
                with _network(self.target):
                    said = await response.text(errors="replace")
        return api_error(error.status, _parsed(said) if said else f"{error.message}", what)

    async def _headers(self) -> dict[str, str]:
        """The credentials of now: a token that an exec plugin gave can end."""
        settings = self.target.settings
        # As kubectl: a kubelet refuses an exec that takes nothing but JSON.
        headers = {"Accept": "application/json, */*"}
        if token := await settings.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = token
        elif settings.username and (basic := settings.get_basic_auth_token()):
            headers["Authorization"] = basic
        return headers


class _network:
    """What goes wrong on the way becomes Unreachable; a refused handshake stays what it is."""

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
            said = " ".join(str(error).split()) or "no answer in time"
            raise Unreachable(
                f"the cluster at {self._target.settings.host} does not answer: {said}"
                f" (from {self._target.source})"
            ) from error


def _pause(told: str) -> float:
    """Seconds until a refused request may come again; by default, and at most, a few."""
    return min(float(told), _LONGEST_PAUSE) if told.isdecimal() else 1.0


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Leave a watch or a log that goes on: nobody waits for the polite end of its connection."""
    if not response.content.at_eof() and response.connection and response.connection.transport:
        response.connection.transport.abort()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
