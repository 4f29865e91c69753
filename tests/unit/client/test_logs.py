"""Followed logs continue across restarts, recreated pods and lost connections, until the job
ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from aiohttp import web
from cluster.waiting import until_true_async
from dijob.client import AsyncClient, Line, LogOptions, Unreachable, logs
from dijob.client.logs import merge_by_time
from dijob.client.retrying import Retries
from dijob.client.watching import Objects
from unit.client.kubelets import Kubelets, kubelets


@pytest.fixture
async def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Kubelets, AsyncClient]]:
    monkeypatch.setattr(logs, "HOLD_SECONDS", 0.05)
    monkeypatch.setattr(logs, "_PAUSE_SECONDS", (0.05, 0.05))
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        yield made, client


class Reader:
    """Collects the lines of `logs -f`."""

    def __init__(self, client: AsyncClient, options: LogOptions) -> None:
        self.lines: list[Line] = []
        self._more = asyncio.Condition()
        self.task = asyncio.ensure_future(self._read(client, options))

    async def _read(self, client: AsyncClient, options: LogOptions) -> None:
        async with aclosing(client.logs("test", options)) as lines:
            async for line in lines:
                async with self._more:
                    self.lines.append(line)
                    self._more.notify_all()

    @property
    def said(self) -> list[str]:
        return [f"{line.rank} {line.text}" for line in self.lines]

    async def until(self, count: int) -> None:
        try:
            async with asyncio.timeout(10), self._more:
                await self._more.wait_for(lambda: len(self.lines) >= count)
        except TimeoutError:
            pytest.fail(f"{count} lines are expected, and there are {self.said}")

    async def end(self) -> list[str]:
        await asyncio.wait_for(self.task, 10)
        return self.said


async def test_a_followed_log_continues_over_restarts_and_recreated_pods(
    world: tuple[Kubelets, AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, client = world
    take, known = logs.Follower._take, set[str]()

    async def noted(self: logs.Follower, found: Objects) -> None:
        await take(self, found)
        known.clear()
        known.update(found)

    monkeypatch.setattr(logs.Follower, "_take", noted)
    await made.start(0)
    await made.start(1)
    reader = Reader(client, LogOptions(follow=True))
    await made.say(0, 10, "zero begins")
    await made.say(1, 11, "one begins")
    await reader.until(2)
    await made.stop(1)
    await made.start(1)
    await made.say(1, 12, "one again")
    await reader.until(3)
    await made.remove(1)
    # Pods are read by name. Before this, the log of the new pod would also be that of the old one.
    await until_true_async("the client has noticed it", lambda: "test-1" not in known)
    await made.start(1, uid="new")
    await made.say(1, 13, "one anew")
    await reader.until(4)
    await made.stop(0)
    await made.stop(1)
    await made.finish()
    assert await reader.end() == ["0 zero begins", "1 one begins", "1 one again", "1 one anew"]


async def test_a_broken_connection_neither_loses_nor_repeats_lines(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    made, client = world
    await made.start(0)
    for number in range(3):
        await made.say(0, 10 + number / 10, f"line {number}")
    made.broken = 2
    reader = Reader(client, LogOptions(follow=True, ranks=frozenset({0})))
    await reader.until(3)
    await made.say(0, 10.5, "line 3")
    await made.stop(0)
    await made.finish()
    assert await reader.end() == [f"0 line {number}" for number in range(4)]


async def test_the_last_lines_before_a_restart_are_not_lost(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    """The connection breaks. Before it is reopened, the container prints, ends and restarts."""
    made, client = world
    await made.start(0)
    reader = Reader(client, LogOptions(follow=True))
    made.broken = 1
    await made.say(0, 10, "first")
    await reader.until(1)
    await made.say(0, 11, "last words")
    await made.stop(0)
    await made.start(0)
    await made.say(0, 12, "again")
    await reader.until(3)
    await made.stop(0)
    await made.finish()
    assert await reader.end() == ["0 first", "0 last words", "0 again"]


async def test_a_deleted_job_ends_a_followed_log(world: tuple[Kubelets, AsyncClient]) -> None:
    made, client = world
    await made.start(0)
    await made.say(0, 10, "hello")
    reader = Reader(client, LogOptions(follow=True))
    await reader.until(1)
    made.job = None
    await made.remove(0)
    assert await reader.end() == ["0 hello"]


async def test_complete_logs_are_merged_by_time(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    made, client = world
    for rank in (0, 1):
        await made.start(rank)
        for second in range(3):
            await made.say(rank, 10 + 2 * second + rank, f"at {second}")
    found = [f"{line.rank} {line.text}" async for line in client.logs("test")]
    assert found == ["0 at 0", "1 at 0", "0 at 1", "1 at 1", "0 at 2", "1 at 2"]
    previous = LogOptions(previous=True)
    assert [line async for line in client.logs("test", previous)] == []


async def test_lines_of_a_rank_keep_their_order_if_its_clock_jumps() -> None:
    async def log(rank: int, *times: int) -> AsyncGenerator[Line]:
        for number, time in enumerate(times):
            yield Line(time, rank, f"test-{rank}", str(number))

    lines = merge_by_time([log(0, 5, 3, 9), log(1, 4, 8)])
    found = [(line.rank, line.text) async for line in lines]
    assert found == [(1, "0"), (0, "0"), (0, "1"), (1, "1"), (0, "2")]


async def test_an_error_of_one_log_ends_all_logs() -> None:
    async def broken() -> AsyncGenerator[Line]:
        raise Unreachable("no kubelet")
        yield

    async def slow() -> AsyncGenerator[Line]:
        await asyncio.sleep(0)
        yield Line(1, 1, "test-1", "late")

    with pytest.raises(Unreachable, match="no kubelet"):
        [line async for line in merge_by_time([slow(), broken()])]


async def test_a_log_that_ends_at_once_is_requested_with_backoff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """H12: behind a proxy that ends each log, it was requested four times per second and rank."""
    pauses, failed = list[float](), Retries.failed
    enough = asyncio.Event()

    def at_once(self: Retries, why: str) -> float:
        pauses.append(failed(self, why))
        if len(pauses) == 6:
            enough.set()
        return 0.0

    async def nothing(self: Kubelets, request: web.Request) -> web.StreamResponse:
        return web.Response()

    monkeypatch.setattr(Kubelets, "log", nothing)
    monkeypatch.setattr(Retries, "failed", at_once)
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        reader = Reader(client, LogOptions(follow=True))
        await asyncio.wait_for(enough.wait(), 10)
        reader.task.cancel()
        await asyncio.wait([reader.task])
    least = (0.5, 1, 2, 4, 5, 5)
    assert all(one >= bound for one, bound in zip(pauses, least, strict=False)), pauses
    assert "reading the log of test-0 keeps failing" in caplog.text


@pytest.mark.parametrize("turns", range(1, 6))
async def test_following_ends_if_it_is_canceled_while_a_line_arrives(
    world: tuple[Kubelets, AsyncClient], turns: int
) -> None:
    """asyncio.wait_for of Python 3.11 returns the line, and ignores the cancellation."""
    _, client = world
    follower = logs.Follower(client.connection, await client.get("test"), LogOptions())

    async def read() -> None:
        async with aclosing(follower.lines()) as lines:
            async for _ in lines:
                pass

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0.01)
    follower._lines.put_nowait(Line(0, 0, "test-0", "one"))
    for _ in range(turns):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading], timeout=5)
    assert reading.cancelled()
