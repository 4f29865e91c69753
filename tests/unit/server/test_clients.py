"""The HTTP server and clients that send broken requests: the form of the response, and the log."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from dijob.process.bounded_http import Bounds, serve_app
from dijob.server.app import invalid_http_response
from fakes.server_lab import UID, Body, lab
from ports import free_port

PROFILINGS = f"/v2alpha1/{UID}/profilings"
HEAD = f"POST {PROFILINGS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer rank\r\n"
CHUNKED = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n"


@asynccontextmanager
async def dialled() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a connection to the server as its process serves it."""
    port = free_port()
    async with (
        lab() as it,
        serve_app(it.server.app(), port, Bounds(), "127.0.0.1", error=invalid_http_response),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()
            await asyncio.sleep(0.2)  # for what the server logs about the end of the connection


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    records = (one for one in caplog.records if one.name.startswith(("dijob", "aiohttp")))
    return [(one.levelname, bool(one.exc_info)) for one in records]


@pytest.mark.parametrize(
    "sent",
    [f'{CHUNKED}5\r\n{{"a":\r\n', f'{HEAD}Content-Length: 100\r\n\r\n{{"a":'],
    ids=["a chunk", "a part of the length"],
)
@pytest.mark.parametrize("reset", [False, True])
async def test_a_client_that_hangs_up_is_one_line_in_the_log(
    sent: str, reset: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with dialled() as (_, writer):
        writer.write(sent.encode())
        await writer.drain()
        await asyncio.sleep(0.2)
        if reset:
            writer.transport.abort()
    assert lines(caplog) == [("INFO", False)]


async def test_a_client_that_hangs_up_after_a_rejection_causes_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with dialled() as (reader, writer):
        writer.write(CHUNKED.replace("Bearer rank", "Bearer no").encode() + b'5\r\n{"a":\r\n')
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
        writer.transport.abort()
    assert [one for one in lines(caplog) if one != ("INFO", False)] == []


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01 no HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        f"{CHUNKED}zz\r\n".encode(),
    ],
    ids=["two lengths", "no HTTP", "bad header", "long header", "a bad chunk"],
)
async def test_the_response_to_a_request_that_cannot_be_parsed_has_the_common_form(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with dialled() as (reader, writer):
        writer.write(sent)
        head, _, body = (await asyncio.wait_for(reader.read(), 15)).partition(b"\r\n\r\n")
    assert b" 400 " in head.splitlines()[0]
    reply: Body = json.loads(body)
    assert (reply["success"], reply["code"], reply["data"]) == (False, 1, None)
    assert reply["message"]
    assert "\n" not in reply["message"]
    assert [one for one in lines(caplog) if one != ("INFO", False)] == []


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"a": 1e999}', "a"),
        ('{"a": {"b": [1, -1e999]}}', "a.b.1"),
        ('{"a": NaN}', "a"),
        ('{"a": Infinity}', "a"),
    ],
)
async def test_a_number_that_json_cannot_store_is_rejected(text: str, field: str) -> None:
    async with lab() as it:
        status, reply = await it.ask("POST", PROFILINGS, text.encode())
        assert status == 400
        assert reply["message"].startswith(f"{field}: ")
        assert "profilings" not in it.apiserver.job["status"]
        status, _ = await it.ask("POST", PROFILINGS, b'{"a": [1.5, {"b": null}]}')
        assert status == 200
        (one,) = it.apiserver.job["status"]["profilings"]
        assert one["data"] == {"a": [1.5, {"b": None}]}
