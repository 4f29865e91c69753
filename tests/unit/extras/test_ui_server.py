"""The server of `ui`: access control, static files, and the format of its streams."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from dijob.cli.errors import CliError, Exit
from dijob.client import Line, NotFound
from dijob_extras.ui import guard, server, serving, sse, tail
from dijob_extras.ui.sse import Message, Messages

KEY = "key"
GIVEN = {"Authorization": f"Bearer {KEY}"}
PAGE = Path(server.__file__).with_name("page")


class Recorded:
    """A source with a list of two states, a job that was deleted, and a log."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.running = asyncio.Event()
        self.closed = asyncio.Event()

    async def run(self) -> None:
        self.running.set()
        await asyncio.Event().wait()

    async def jobs(self) -> Messages:
        yield Message("trouble", {"sentence": ""})
        for state in ("one", "one", "two"):
            yield Message("jobs", {"jobs": [state]})
        yield None

    async def totals(self) -> Messages:
        yield Message("totals", {"rows": []})

    async def job(self, namespace: str, name: str) -> Messages:
        self.asked.append((namespace, name))
        try:
            while True:
                yield Message("job", {"name": f"{name}\nü"})
                await asyncio.sleep(0.01)
        finally:
            self.closed.set()

    async def log(self, namespace: str, name: str, rank: int | None) -> Messages:
        self.asked.append((namespace, name, rank))
        for _ in range(2):
            yield Message("lines", [{"text": "same"}])

    async def text(self, namespace: str, name: str, rank: int | None) -> AsyncGenerator[str]:
        self.asked.append((namespace, name, rank))
        if name == "gone":
            raise NotFound(404, "NotFound", "there is no DIJob gone")
        yield "one\n"
        yield "zwei ü\n"

    async def past(self) -> Messages:
        yield Message("past", {"jobs": ["old"]})

    async def record(self, namespace: str, name: str, uid: str) -> Messages:
        self.asked.append((namespace, name, uid))
        yield Message("record", {"name": name})


@pytest.fixture
async def source() -> Recorded:
    return Recorded()


Client = TestClient[Any, Any]


@pytest.fixture
async def client(source: Recorded) -> AsyncGenerator[Client]:
    app = server.build_application(source, KEY)
    made = TestServer(app, handler_cancellation=True)
    async with TestClient(made) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        pytest.param("GET", "/", {}, 200, id="the page has no secret"),
        pytest.param("GET", "/api/jobs", {}, 401, id="no key"),
        pytest.param("GET", "/api/jobs", {"Authorization": "Bearer keys"}, 401, id="wrong key"),
        pytest.param("GET", "/api/jobs", {"Authorization": "Bearer ü"}, 401, id="odd key"),
        pytest.param("GET", "/api/jobs?token=key", {}, 401, id="key in the query"),
        pytest.param("GET", "/api/jobs", {"Cookie": "token=key"}, 401, id="key as a cookie"),
        pytest.param("GET", "/api/jobs", GIVEN, 200, id="right key"),
        pytest.param("GET", "/api/totals", {}, 401, id="totals without the key"),
        pytest.param("GET", "/api/totals", GIVEN, 200, id="totals"),
        pytest.param("GET", "/api/me", GIVEN, 404, id="there is one user only"),
        pytest.param("GET", "/api/jobs", {**GIVEN, "Host": "evil.test"}, 403, id="rebinding"),
        pytest.param("GET", "/", {"Host": "evil.test:80"}, 403, id="rebinding, page"),
        pytest.param("GET", "/", {"Host": "127.0.0.1.evil.test"}, 403, id="rebinding, prefix"),
        pytest.param("GET", "/", {"Host": "[evil"}, 403, id="no host at all"),
        pytest.param("GET", "/", {"Host": "localhost:1"}, 200, id="localhost, other port"),
        pytest.param("GET", "/", {"Host": "[::1]:1"}, 200, id="IPv6"),
        pytest.param("POST", "/api/jobs", GIVEN, 405, id="post"),
        pytest.param("DELETE", "/api/jobs/ns/test", GIVEN, 405, id="delete"),
        pytest.param("HEAD", "/", {}, 405, id="head"),
        pytest.param("GET", "/api/secrets", GIVEN, 404, id="no such path"),
        pytest.param("GET", "/api/jobs/ns/..%2F..%2Fsecrets", GIVEN, 404, id="no name"),
        pytest.param("GET", "/api/jobs/NS/test", GIVEN, 404, id="no namespace"),
        pytest.param("GET", "/api/jobs/ns/test/log/x", GIVEN, 404, id="no rank"),
        pytest.param("GET", "/api/jobs/ns/test/text", {}, 401, id="a download without the key"),
        pytest.param("GET", "/api/history", {}, 401, id="the history without the key"),
        pytest.param("GET", "/api/history/ns/x/%2e%2e", GIVEN, 404, id="no uid"),
        pytest.param("GET", "/..%2Fserver.py", {}, 404, id="no file of the page"),
    ],
)
async def test_which_requests_are_answered(
    client: Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    async with client.request(method, path, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        assert {name: answer.headers[name] for name in guard.HEADERS} == guard.HEADERS


def test_the_page_has_no_foreign_and_no_inline_content() -> None:
    assert "default-src 'self'" in guard.HEADERS["Content-Security-Policy"]
    assert "unsafe" not in guard.HEADERS["Content-Security-Policy"]
    texts = {file.name: file.read_text() for file in PAGE.iterdir()}
    assert {"index.html", "main.js", "style.css", "icon.svg"} <= texts.keys()
    for name, text in texts.items():
        hosts = set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}
        assert not hosts, (name, hosts)
    page = texts["index.html"]
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*src=)", page)
    assert not any("innerHTML" in text for text in texts.values())


async def test_every_file_of_the_page_is_served(client: Client) -> None:
    todo, done = ["/"], set[str]()
    while todo:
        path = todo.pop()
        done.add(path)
        async with client.get(path) as answer:
            assert answer.status == 200, path
            text = await answer.text()
        named = [*re.findall(r'(?:src|href)="(/[\w.]+)"', text)]
        named += [f"/{name}" for name in re.findall(r'from "\./([\w.]+)"', text)]
        todo += [name for name in named if name not in done]
    assert done == {"/", *(f"/{file.name}" for file in PAGE.iterdir())} - {"/index.html"}


async def frames(answer: ClientResponse, most: int = 100) -> list[tuple[str, Any]]:
    """Return the events of a stream up to its end, at most `most`."""
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    found = list[tuple[str, Any]]()
    while len(found) < most and (line := await answer.content.readline()):
        data = await answer.content.readline()
        assert (line[:7], data[:6]) == (b"event: ", b"data: ")
        assert await answer.content.readline() == b"\n"
        found.append((line[7:].decode().strip(), json.loads(data[6:])))
    return found


async def test_equal_states_are_sent_once(client: Client) -> None:
    async with client.get("/api/jobs", headers=GIVEN) as answer:
        assert await frames(answer) == [
            ("trouble", {"sentence": ""}),
            ("jobs", {"jobs": ["one"]}),
            ("jobs", {"jobs": ["two"]}),
        ]


async def test_the_history_is_served(client: Client, source: Recorded) -> None:
    async with client.get("/api/history", headers=GIVEN) as answer:
        assert await frames(answer) == [("past", {"jobs": ["old"]})]
    async with client.get("/api/history/ns/test/0a-1b", headers=GIVEN) as answer:
        assert await frames(answer) == [("record", {"name": "test"})]
    assert source.asked == [("ns", "test", "0a-1b")]


async def test_equal_lines_of_a_log_are_all_sent(client: Client, source: Recorded) -> None:
    async with client.get("/api/jobs/ns/test/log/12", headers=GIVEN) as answer:
        assert await frames(answer) == [("lines", [{"text": "same"}])] * 2
    async with client.get("/api/jobs/ns/test/log", headers=GIVEN) as answer:
        assert len(await frames(answer)) == 2
    assert source.asked == [("ns", "test", 12), ("ns", "test", None)]


async def test_a_complete_log_is_a_text(client: Client, source: Recorded) -> None:
    async with client.get("/api/jobs/ns/test/text/2", headers=GIVEN) as answer:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert await answer.text() == "one\nzwei ü\n"
    async with client.get("/api/jobs/ns/gone/text", headers=GIVEN) as answer:
        assert (answer.status, await answer.text()) == (502, "there is no DIJob gone")
    assert source.asked == [("ns", "test", 2), ("ns", "gone", None)]


async def test_closing_a_tab_ends_its_requests(client: Client, source: Recorded) -> None:
    answer = await client.get("/api/jobs/ns/test", headers=GIVEN)
    assert await frames(answer, 1) == [("job", {"name": "test\nü"})]
    assert source.asked == [("ns", "test")]
    assert source.running.is_set()
    answer.close()
    await asyncio.wait_for(source.closed.wait(), 5)


async def test_a_quiet_stream_sends_comments(
    client: Client, source: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "QUIET_SECONDS", 0.05)
    async with client.get("/api/jobs/ns/test", headers=GIVEN) as answer:
        await frames(answer, 1)
        assert await answer.content.readline() == b": still here\n"


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        pytest.param(
            "\x1b[32mgreen\x1b[0m and \x1b]0;title\x07bold", "green and bold", id="colours"
        ),
        pytest.param(" 10%\r 50%\r100%", "100%", id="a progress bar"),
        pytest.param("windows  \r", "windows", id="its line's end"),
        pytest.param("<b>&amp;</b>", "<b>&amp;</b>", id="no HTML"),
    ],
)
def test_lines_are_shown_without_control_characters(printed: str, text: str) -> None:
    line = tail.line_for_page(Line(1_500_000_000, 3, "test-3", printed))
    assert line == {"time": "1970-01-01T00:00:01.500Z", "rank": 3, "text": text}


def test_warnings_of_libraries_are_marked() -> None:
    line = tail.line_for_page(Line(0, 0, "test-0", "x.py:1: UserWarning: old"))
    assert line["noise"] is True


@pytest.mark.parametrize(
    ("platform", "environment", "there"),
    [
        pytest.param("linux", {"DISPLAY": ":0"}, True, id="X"),
        pytest.param("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True, id="Wayland"),
        pytest.param("linux", {"TERM": "xterm"}, False, id="a terminal alone"),
        pytest.param("darwin", {}, True, id="macOS"),
    ],
)
def test_a_browser_is_opened_if_there_is_a_screen(
    platform: str, environment: dict[str, str], there: bool
) -> None:
    assert serving.has_screen(platform, environment) is there


class Empty:
    """The client of a cluster without jobs."""

    async def list(self, *, everywhere: bool = False) -> list[Any]:
        return []


async def test_a_port_in_use_is_reported(client: Client) -> None:
    assert client.port is not None
    wish = serving.Wish(port=client.port, browser=False)
    with pytest.raises(CliError, match=rf"port {client.port} is in use .* --port") as refused:
        await serving.serve_page(Empty(), wish)  # type: ignore[arg-type]
    assert refused.value.code == Exit.USAGE


async def test_a_log_that_is_read_more_slowly_than_it_grows_can_be_closed() -> None:
    """The reader of the log waits for room in the queue, and must not wait for it at the end."""
    read = 0

    async def endless() -> AsyncGenerator[Line]:
        nonlocal read
        while True:
            read += 1
            yield Line(0, 0, "a-0", str(read))

    batches = tail._batch_lines(endless())
    assert len(await anext(batches)) == 200
    for _ in range(3):
        await asyncio.sleep(0)
    assert read > 5000
    async with asyncio.timeout(5):
        await batches.aclose()
