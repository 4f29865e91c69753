"""kopf's connection to the apiserver, with limits on what kopf's parser reads.

This parser is `json.loads`. A single object that is nested 1,000 levels deep makes this
function raise a RecursionError. The error would terminate the process. Each new process would then
fail in the same way during its first LIST request. So the session returns documents without parts
that are too deep or too large (documents.py). kopf's login handler may return such a session, so
kopf itself needs no change.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import kopf
from aiohttp.connector import Connection

from dijob.kube.documents import limit_document, parse_document


class _Lines:
    """The body of a response. Each chunk consists of complete lines, because a watch event is a
    line.
    """

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncGenerator[bytes]:
        parts: list[bytes] = []
        async for chunk in self._content.iter_chunked(size):
            # kopf splits the body into lines itself, so a line feed ends each chunk.
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield await limit_document(b"".join((*parts, line))) + b"\n"
                parts.clear()
            parts.append(rest)


class _Response(aiohttp.ClientResponse):
    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.content = cast(aiohttp.StreamReader, _Lines(self.content))
        return self

    async def json(self, **_: Any) -> Any:
        try:
            return await parse_document(await self.read())
        except ValueError as error:
            # kopf expects this exception if a response is not JSON.
            raise json.JSONDecodeError(str(error), "", 0) from error


@dataclass(frozen=True, kw_only=True)
class Session(kopf.AiohttpSession):
    """A session with kopf's own credentials.

    Sessions with the same credentials are equal. This keeps kopf from trying the same credentials
    forever: it compares a new session with the one that was just rejected.
    """

    aiohttp_session: aiohttp.ClientSession = field(compare=False)
    info: kopf.ConnectionInfo


async def login(**arguments: Any) -> kopf.AiohttpSession | None:
    """Return a session with the credentials of the pod's service account. If there are
    none, as outside a cluster, use those of a kubeconfig.
    """
    # A kubeconfig may name a program that gets a token. Running this program must not block the
    # event loop.
    info = await asyncio.to_thread(_find_credentials, arguments)
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


def _find_credentials(arguments: dict[str, Any]) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
