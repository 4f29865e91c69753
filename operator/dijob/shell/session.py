"""kopf's connection to the apiserver: its own credentials, and documents that every parser can
read.

kopf reads with `json.loads`, which a single object that is nested 1,000 levels deep makes raise
RecursionError: that ends the process, and the next one at its first list.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import kopf
from aiohttp.connector import Connection

from dijob.shell.documents import parsed, readable


class _Lines:
    """The body of a response; what is read in chunks is whole lines."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncGenerator[bytes]:
        parts: list[bytes] = []
        async for chunk in self._content.iter_chunked(size):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield await readable(b"".join((*parts, line))) + b"\n"
                parts.clear()
            parts.append(rest)


class _Response(aiohttp.ClientResponse):
    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.content = cast(aiohttp.StreamReader, _Lines(self.content))
        return self

    async def json(self, **_: Any) -> Any:
        try:
            return await parsed(await self.read())
        except ValueError as error:
            # Kopf tells an answer that is no JSON by it.
            raise json.JSONDecodeError(str(error), "", 0) from error


@dataclass(frozen=True, kw_only=True)
class Session(kopf.AiohttpSession):
    """A session of ours with the credentials of kopf's own; equal to another where those are, since
    kopf asks whether what it gets is what has just been refused.
    """

    aiohttp_session: aiohttp.ClientSession = field(compare=False)
    info: kopf.ConnectionInfo


async def login(**arguments: Any) -> kopf.AiohttpSession | None:
    """The credentials of the pod's service account, else those of a kubeconfig."""
    info = await asyncio.to_thread(_credentials, arguments)
    if info is None:
        return None
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=_Response,
    )
    return Session(
        server=info.server,
        priority=info.priority,
        default_namespace=info.default_namespace,
        expiration=info.expiration,
        aiohttp_session=session,
        info=info,
    )


def _credentials(arguments: dict[str, Any]) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
