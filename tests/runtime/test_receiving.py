"""T1: a queue that cannot receive logs one warning. DI-engine's own recv (ding 0.5.3, redis.py:62
and nng.py:64) prints a traceback, because its log call is invalid.
"""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dijob_runtime.hook import nng, receiving, redis

SENDER, MINE = b"0" * 32, b"1" * 32


class Broken(Exception):
    """The exception of the queue's library."""


class Socket:
    """pynng's socket and redis-py's subscriptions. Each call returns or raises the next item."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)

    def recv(self) -> Any:
        result = self.results.pop(0)
        if callable(result):
            result = result()
        if isinstance(result, Exception):
            raise result
        return result

    def get_message(self, **_: Any) -> Any:
        return self.recv()


def nng_queue(*results: Any) -> Any:
    class Queue:
        _running, _sock = True, Socket(*results)

        def publish(self) -> None: ...
        def stop(self) -> None: ...

        def recv(self) -> Any:
            try:
                return self._sock.recv()
            except Exception as error:
                logging.error("Meet exception when listening for new messages", error)

    nng.patch(SimpleNamespace(NNGMQ=Queue, Bus0=object))  # type: ignore[arg-type]
    return Queue()


def redis_queue(*results: Any) -> Any:
    class Queue:
        _running, _id, _sub = True, MINE, Socket(*results)

        def listen(self) -> None: ...

        def recv(self) -> Any:
            try:
                return self._sub.get_message()
            except Exception as error:
                logging.error("Meet exception when listening for new messages", error)

    module = SimpleNamespace(RedisMQ=Queue, redis=SimpleNamespace(exceptions=Exceptions))
    redis.patch(module)  # type: ignore[arg-type]
    return Queue()


class Exceptions:
    RedisError = Broken


def published(data: bytes, sender: bytes = SENDER) -> dict[str, Any]:
    return {"type": "message", "channel": b"hello", "data": sender + b"::" + data}


Make = Callable[..., Any]
# A queue, and a message as its library returns it.
QUEUES = {"nng": (nng_queue, b"hello::a::b"), "redis": (redis_queue, published(b"a::b"))}


@pytest.fixture(autouse=True)
def in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DI_NODES", "10.0.0.1,10.0.0.2")
    monkeypatch.setenv("DI_RANK", "1")
    monkeypatch.setattr(receiving, "PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize(("make", "message"), QUEUES.values(), ids=QUEUES)
def test_a_queue_that_cannot_receive_is_reported_once(
    make: Make, message: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """T1: while Redis was away, each attempt printed a traceback."""
    mq = make(Broken("away"), Broken("away"), message, message)
    assert [mq.recv(), mq.recv()] == [("hello", b"a::b")] * 2
    assert capsys.readouterr().err.splitlines() == [
        "dijob: WARNING: cannot receive messages, retrying: Broken('away')",
        "dijob: messages are received again",
    ]


@pytest.mark.parametrize(("make", "message"), QUEUES.values(), ids=QUEUES)
def test_the_end_of_a_queue_is_no_failure(
    make: Make, message: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """T1: at the end of a job, its own thread closes the connection from which the listening thread
    reads.
    """

    def closed() -> Exception:
        mq._running = False
        return Broken("closed")

    mq = make(closed)
    assert (mq.recv(), mq.recv()) == (None, None)
    assert capsys.readouterr().err == ""


def test_of_redis_messages_those_of_other_processes_are_received(
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = {**published(b""), "data": b"odd"}
    mq = redis_queue(None, published(b"own", MINE), odd, published(b"x"))
    assert mq.recv() == ("hello", b"x")
    assert "a message on topic 'hello' that is not from DI-engine" in capsys.readouterr().err
