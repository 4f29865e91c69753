"""Serves an aiohttp application on a port that every pod of the cluster can reach.

A client that opens thousands of connections must not block the probes of the kubelet or the
requests of other clients. So the number of open connections is limited, in total and per address. A
new connection is always accepted. If a limit is then exceeded, an old connection is closed instead.
If the new connection exceeds the limit per address, its address loses an old connection. If only
the total is too high, the address with the most connections loses one. Idle connections are closed
before busy ones. The kubelet opens one connection for each probe, so its address never has the most
connections.

aiohttp does not limit the number of connections. With `keepalive_timeout`, aiohttp closes a
connection that has not sent the complete header of a request in time.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

log = logging.getLogger(__name__)

# The warning about closed connections is logged at most this often.
WARNING_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Bounds:
    """Limits: open connections in total and per address, and seconds without a request."""

    in_total: int = 256
    of_one_address: int = 32
    idle_seconds: float = 10.0
    stop_seconds: float = 60.0
    """How long the server waits for requests in progress when it stops."""
    cancels: bool = False
    """Whether a request in progress is canceled when its client closes the connection."""


# Returns the response with this status and message.
ErrorAnswer = Callable[[int, str], web.Response]


def _plain_response(status: int, message: str) -> web.Response:
    return web.Response(status=status, text=message)


class Transport(Protocol):
    """The part of asyncio.Transport that is used here."""

    def abort(self) -> None:
        """Close the connection at once."""


@dataclass
class Connections:
    """The open connections by address, oldest first. A connection with a request in progress is
    busy.
    """

    bounds: Bounds
    _open: dict[str, dict[Transport, None]] = field(default_factory=dict)
    _busy: set[object] = field(default_factory=set)
    _total: int = 0
    _closed: int = 0
    _warned: float = float("-inf")  # monotonic seconds

    def __len__(self) -> int:
        return self._total

    def opened(self, address: str, transport: Transport, now: float) -> None:
        """Add a new connection at the time `now` (monotonic seconds), and close an old one if there
        are too many.
        """
        own = self._open.setdefault(address, {})
        own[transport] = None
        self._total += 1
        # Check the limit per address first, so that an address that exceeds it loses one of its own
        # connections.
        if len(own) > self.bounds.of_one_address:
            self._close_one(address, now)
        elif self._total > self.bounds.in_total:
            self._close_one(max(self._open, key=lambda one: len(self._open[one])), now)

    def lost(self, address: str, transport: Transport) -> None:
        """Forget a connection that has been closed."""
        self._busy.discard(transport)
        own = self._open.get(address, {})
        if transport in own:
            del own[transport]
            self._total -= 1
        if not own:
            self._open.pop(address, None)

    @web.middleware
    async def mark_busy(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: a connection is busy while its request is being answered."""
        transport = request.transport
        self._busy.add(transport)
        try:
            return await handler(request)
        finally:
            self._busy.discard(transport)

    def _close_one(self, address: str, now: float) -> None:
        own = self._open[address]
        # Keep the newest connection: it is the one that a well-behaved client has just opened.
        *earlier, _ = own
        victim = next((one for one in earlier if one not in self._busy), next(iter(own)))
        self.lost(address, victim)
        # Do not use `close`, which would wait until the client has read what was sent.
        victim.abort()
        self._closed += 1
        # Log one line for all closed connections, so that a client cannot flood the log either.
        if now - self._warned >= WARNING_SECONDS:
            log.warning(
                "too many connections (limits: %d in total, %d per address): closed %d since the"
                " previous warning, most recently one from %s",
                self.bounds.in_total,
                self.bounds.of_one_address,
                self._closed,
                address,
            )
            self._closed, self._warned = 0, now


class _Counted(asyncio.Protocol):
    """Forwards everything to aiohttp's protocol, and reports new and lost connections."""

    def __init__(self, inner: asyncio.Protocol, connections: Connections) -> None:
        self._inner = inner
        self._connections = connections
        self._address = ""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self._inner.connection_made(transport)
        now = asyncio.get_running_loop().time()
        self._connections.opened(self._address, transport, now)

    def connection_lost(self, exc: Exception | None) -> None:
        assert self._transport is not None
        self._connections.lost(self._address, self._transport)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class _Handler(web.RequestHandler):
    """aiohttp's protocol, with `answer` as the response to a request that is not valid HTTP.
    aiohttp itself answers in plain text, and no middleware sees such a request.
    """

    __slots__ = ("_answer",)

    def __init__(self, manager: web.Server, answer: ErrorAnswer, **options: Any) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), **options)
        self._answer = answer

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        if not isinstance(exc, HttpProcessingError):
            return response
        # The rest of aiohttp's message quotes the request and marks the invalid byte in it.
        first = (message or "").partition("\n")[0].strip()
        answer = self._answer(status, first)
        answer.force_close()
        return answer


class _OneLine(logging.Filter):
    """Logs one line instead of a traceback if the client caused the error: aiohttp cannot parse the
    request, or the client closed the connection.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.msg, record.args = (
                "rejected a request that is not valid HTTP: %r",
                (error.message,),
            )
            record.exc_info = record.exc_text = None
        elif isinstance(error, ConnectionError):
            record.levelno, record.levelname = logging.INFO, "INFO"
            record.msg, record.args = "a client closed its connection: %s", (error,)
            record.exc_info = record.exc_text = None
        return True


def _http_logger() -> logging.Logger:
    found = logging.getLogger(f"{__name__}.http")
    # Loggers are global, and tests start several servers, but the filter must be added only once.
    if not found.filters:
        found.addFilter(_OneLine())
    return found


@asynccontextmanager
async def serve_app(
    app: web.Application,
    port: int,
    bounds: Bounds = Bounds(),
    host: str | None = None,
    error: ErrorAnswer = _plain_response,
) -> AsyncIterator[Connections]:
    """Serve an application on a port until the context exits. Port 0: any free port.

    `error` returns the response to a request that is not valid HTTP.
    """
    connections = Connections(bounds)
    app.middlewares.insert(0, connections.mark_busy)
    options: dict[str, Any] = {
        "access_log": None,
        "logger": _http_logger(),
        "keepalive_timeout": bounds.idle_seconds,
    }
    runner = web.AppRunner(
        app, handler_cancellation=bounds.cancels, shutdown_timeout=bounds.stop_seconds, **options
    )
    await runner.setup()
    made = runner.server
    assert made is not None
    # aiohttp's TCPSite cannot wrap the protocol, so the socket is opened here.
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Counted(_Handler(made, error, **options), connections), host, port
    )
    try:
        yield connections
    finally:
        server.close()
        await runner.cleanup()
