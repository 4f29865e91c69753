"""Limits of the ports that every pod can reach (H25, H26), and log lines about invalid requests
(H8).
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import ClientConnectorError, ClientSession, TCPConnector, web
from cluster.waiting import until_true_async
from dijob.controller.health import Watchdog, serve_health
from dijob.process.bounded_http import Bounds, Connections, serve_app
from ports import free_port

# A test that hangs fails after this time. Idle connections may stay open for longer.
SECONDS = 20.0


class Link:
    """A transport that records whether it was closed."""

    def __init__(self) -> None:
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def opened(connections: Connections, address: str, number: int) -> list[Link]:
    links = [Link() for _ in range(number)]
    for link in links:
        connections.opened(address, link, now=0.0)
    return links


def alive(links: Sequence[Link]) -> list[int]:
    return [place for place, link in enumerate(links) if not link.aborted]


def test_h25_an_address_over_its_limit_loses_its_oldest_connection() -> None:
    connections = Connections(Bounds(in_total=100, of_one_address=3))
    assert alive(opened(connections, "a", 5)) == [2, 3, 4]
    assert len(connections) == 3


def test_h26_the_address_with_the_most_connections_loses_one() -> None:
    """The kubelet's single connection stays open, whatever the other addresses do."""
    connections = Connections(Bounds(in_total=10, of_one_address=8))
    kubelet = opened(connections, "kubelet", 1)
    many = opened(connections, "a", 8)
    few = [link for address in "bcdefg" for link in opened(connections, address, 1)]
    assert (alive(kubelet), len(alive(many)), len(alive(few))) == ([0], 3, 6)
    assert len(connections) == 10


def test_a_connection_that_ends_by_itself_is_no_longer_counted() -> None:
    connections = Connections(Bounds(in_total=2, of_one_address=2))
    for _ in range(5):
        (link,) = opened(connections, "a", 1)
        connections.lost("a", link)
        connections.lost("a", link)
    assert len(connections) == 0


def test_one_warning_a_minute_names_the_address(caplog: pytest.LogCaptureFixture) -> None:
    connections = Connections(Bounds(in_total=100, of_one_address=1))
    for second in range(130):
        connections.opened("10.0.0.9", Link(), now=float(second))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert "closed 60 since the previous warning, most recently one from 10.0.0.9" in lines[1]


@dataclass
class Site:
    """A server with a path that responds at once, and one that responds when `go` is set."""

    port: int
    connections: Connections
    asked: asyncio.Event
    go: asyncio.Event


@asynccontextmanager
async def served(bounds: Bounds) -> AsyncIterator[Site]:
    was_asked, go = asyncio.Event(), asyncio.Event()

    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def slow(_: web.Request) -> web.Response:
        was_asked.set()
        await go.wait()
        return web.Response(text="slow")

    app = web.Application()
    app.add_routes([web.get("/livez", quick), web.get("/slow", slow)])
    port = free_port()
    async with serve_app(app, port, bounds, "127.0.0.1") as connections:
        yield Site(port, connections, was_asked, go)
        go.set()


@asynccontextmanager
async def dialled(
    port: int, source: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection from an address of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def asked(port: int, source: str, path: str = "/livez") -> str:
    connector = TCPConnector(local_addr=(source, 0))
    async with (
        ClientSession(connector=connector) as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return await answer.text()


async def test_h26_a_probe_succeeds_while_others_hold_thousands_of_sockets() -> None:
    """H25, H26: four addresses open 2,000 idle connections, and each probe succeeds."""
    bounds = Bounds(in_total=40, of_one_address=16, idle_seconds=30)
    async with served(bounds) as site:
        flood: list[socket.socket] = []
        try:
            for number in range(2000):
                link = socket.socket()
                link.bind((f"127.0.1.{number % 4 + 1}", 0))
                link.setblocking(False)
                await asyncio.get_running_loop().sock_connect(link, ("127.0.0.1", site.port))
                flood.append(link)
                if number % 100 == 0:
                    assert await asyncio.wait_for(asked(site.port, "127.0.0.1"), SECONDS) == "ok"
            assert len(site.connections) <= bounds.in_total
        finally:
            for link in flood:
                link.close()


async def test_a_busy_connection_outlasts_idle_ones() -> None:
    bounds = Bounds(in_total=8, of_one_address=4)
    async with served(bounds) as site, AsyncExitStack() as stack:
        answer = asyncio.create_task(asked(site.port, "127.0.1.1", "/slow"))
        await site.asked.wait()
        for _ in range(20):
            await stack.enter_async_context(dialled(site.port, "127.0.1.1"))
        site.go.set()
        assert await asyncio.wait_for(answer, SECONDS) == "slow"


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n"], ids=["none", "half"])
async def test_h25_a_connection_without_a_complete_header_is_closed(sent: bytes) -> None:
    """H25: otherwise a client could occupy a socket of the operator forever."""
    bounds = Bounds(idle_seconds=0.2)
    async with served(bounds) as site, dialled(site.port) as (reader, writer):
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""


LENGTHS = b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /livez HTTP/1.1\r\nHost: x\r\n" + LENGTHS + b"\r\n",
        b"\x16\x03\x01 no HTTP\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHo st: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
    ],
    ids=["two lengths", "no HTTP", "bad header", "long header"],
)
async def test_h8_a_request_that_cannot_be_parsed_is_at_most_one_line_in_the_log(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """H8: any pod could fill the log with tracebacks of ten lines."""
    caplog.set_level(logging.INFO)
    async with served(Bounds()) as site, dialled(site.port) as (reader, writer):
        writer.write(sent)
        assert (await asyncio.wait_for(reader.read(), SECONDS)).startswith(b"HTTP/1.0 400")
    records = [record for record in caplog.records if record.name.startswith("dijob")]
    assert len(records) <= 1
    for record in records:
        assert (record.levelname, record.exc_info, record.exc_text) == ("INFO", None, None)
        assert "\n" not in record.getMessage()


async def test_an_error_of_the_server_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Only errors of clients are reduced to one line."""

    async def fails(_: web.Request) -> web.Response:
        raise KeyError("a bug")

    app = web.Application()
    app.router.add_get("/", fails)
    port = free_port()
    async with serve_app(app, port, Bounds(), "127.0.0.1"):
        assert "500" in await asked(port, "127.0.0.1", "/")
    (record,) = (one for one in caplog.records if one.name.startswith("dijob"))
    assert (record.levelname, bool(record.exc_info)) == ("ERROR", True)


async def test_h26_the_operators_port_has_these_limits() -> None:
    """H26: of 100 idle connections of one address, the newest 32 stay open."""
    watchdog = cast(Watchdog, SimpleNamespace(lives=lambda: (True, "ok")))
    port = free_port()
    serving = asyncio.create_task(serve_health(port, watchdog))
    try:
        async with asyncio.timeout(SECONDS), AsyncExitStack() as stack:
            # The first connection may be attempted before the server listens.
            while not serving.done():
                with suppress(ClientConnectorError):
                    assert await asked(port, "127.0.0.1") == "ok"
                    break
            links = [
                await stack.enter_async_context(dialled(port, "127.0.1.1")) for _ in range(100)
            ]
            assert await asked(port, "127.0.0.1") == "ok"

            def closed() -> int:
                return sum(link[0].at_eof() or bool(link[0].exception()) for link in links)

            wanted = 100 - Bounds().of_one_address
            await until_true_async("the others are closed", lambda: closed() >= wanted)
            assert closed() == wanted
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("closes", [True, False], ids=["its client has gone", "the server stops"])
async def test_a_request_without_an_end_is_canceled_if(closes: bool) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(_: web.Request) -> web.Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    app, port = web.Application(), free_port()
    app.router.add_get("/", endless)
    bounds = Bounds(stop_seconds=0.1, cancels=True)
    async with serve_app(app, port, bounds, host="127.0.0.1"):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await begun.wait()
        if closes:
            writer.close()
            await asyncio.wait_for(ended.wait(), 10)
    await asyncio.wait_for(ended.wait(), 10)
    writer.close()
