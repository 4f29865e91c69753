"""The queue of messages to one peer of torchrpc: order, batches, limits, and a peer that leaves."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from dijob_runtime.torchrpc import outbox
from dijob_runtime.torchrpc.outbox import Message, Outbox

MB = 2**20


class Call:
    """A call that is in transit until the test ends it. For the caller it looks like a torch
    future.
    """

    def __init__(self, messages: list[Message]) -> None:
        self.topics = [topic for topic, _ in messages]
        self._done: Callable[[Any], None]
        self._problem = ""

    def add_done_callback(self, done: Callable[[Any], None]) -> None:
        self._done = done

    def value(self) -> None:
        if self._problem:
            raise RuntimeError(self._problem)

    def end(self, problem: str = "") -> None:
        self._problem = problem
        self._done(self)


class Wire:
    """Records calls."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.outbox = Outbox(7, self.send)

    def send(self, messages: list[Message]) -> Call:
        self.calls.append(Call(messages))
        return self.calls[-1]

    def put(self, *topics: str, size: int = 10) -> None:
        for topic in topics:
            self.outbox.put((topic, b""), size)

    @property
    def sent(self) -> list[list[str]]:
        return [call.topics for call in self.calls]


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_waiting_messages_are_sent_together_and_in_order(wire: Wire) -> None:
    wire.put("a", "b", "c")
    assert wire.sent == [["a"]], "at once where nothing is on its way"
    wire.calls[0].end()
    assert wire.sent == [["a"], ["b", "c"]]
    wire.calls[1].end()
    wire.put("d")
    assert wire.sent == [["a"], ["b", "c"], ["d"]]


def test_a_large_message_does_not_wait_for_the_previous_response(wire: Wire) -> None:
    wire.put("a", "b", "c", size=2 * MB)
    assert wire.sent == [["a"], ["b"], ["c"]]


def test_a_large_message_is_sent_with_those_that_wait_before_it(wire: Wire) -> None:
    wire.put("a", "b")
    wire.put("c", size=2 * MB)
    wire.put("d")
    assert wire.sent == [["a"], ["b", "c"]]
    wire.calls[1].end()
    assert wire.sent == [["a"], ["b", "c"]], "the first call is still on its way"
    wire.calls[0].end()
    assert wire.sent == [["a"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("size", "most"),
    [(outbox.MOST_BYTES // 4, 4), (1, outbox.MOST_MESSAGES)],
    ids=["bytes", "messages"],
)
def test_a_publisher_that_is_too_fast_waits(wire: Wire, size: int, most: int) -> None:
    wire.put(*["early"] * most, size=size)
    late = threading.Thread(target=wire.put, args=("late",), kwargs={"size": size}, daemon=True)
    late.start()
    late.join(0.05)
    assert late.is_alive()
    wire.calls[0].end()
    late.join(5)
    assert not late.is_alive()


def test_one_message_may_be_larger_than_all_that_may_wait(wire: Wire) -> None:
    wire.put("huge", size=4 * outbox.MOST_BYTES)
    assert wire.sent == [["huge"]]


def test_no_publisher_waits_for_a_peer_that_has_left(
    wire: Wire, capsys: pytest.CaptureFixture[str]
) -> None:
    wire.put("huge", size=outbox.MOST_BYTES)
    late = threading.Thread(target=wire.put, args=("late",), daemon=True)
    late.start()
    wire.outbox.has_gone()
    late.join(5)
    assert not late.is_alive()
    wire.calls[0].end("connection reset")
    wire.put("later still")
    wire.outbox.flush(60)
    assert wire.sent == [["huge"]]
    assert capsys.readouterr().err == "", "that it has gone is said once, by others"


def test_lost_messages_are_reported_and_the_next_is_sent(
    wire: Wire, capsys: pytest.CaptureFixture[str]
) -> None:
    wire.put("a", "b", "c")
    wire.calls[0].end()
    wire.calls[1].end("broken pipe\nand a stack")
    wire.put("d")
    assert wire.sent[-1] == ["d"]
    assert capsys.readouterr().err == "dijob: 2 messages to node 7 did not arrive: broken pipe\n"


def test_a_peer_that_leaves_during_a_send_blocks_no_publisher(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(messages: list[Message]) -> Call:
        raise RuntimeError("no such worker")

    box = Outbox(7, refuse)
    for _ in range(2 * outbox.MOST_MESSAGES):
        box.put(("a", b""), 1)
    box.flush(5)
    assert (
        capsys.readouterr().err.count("a message to node 7 did not arrive: no such worker") == 512
    )


def test_flush_waits_until_all_has_arrived(wire: Wire) -> None:
    wire.put("a", "b")

    def both_arrive() -> None:
        wire.calls[0].end()
        wire.calls[1].end()

    threading.Timer(0.05, both_arrive).start()
    wire.outbox.flush(5)
    assert wire.sent == [["a"], ["b"]]
