"""Events that arrive before their listener is registered."""

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from dijob_runtime.hook import kept
from dijob_runtime.hook.kept import Kept


def test_kept_messages_are_delivered_once_in_order() -> None:
    held = Kept()
    for word in (b"1", b"2"):
        held.put("a", word)
    held.put("b", b"3")
    assert (held.take("a"), held.take("a"), held.take("b")) == ([b"1", b"2"], [], [b"3"])


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        (kept.MOST_MESSAGES + 2, kept.MOST_MESSAGES),
        (3, 2),
    ],
    ids=["number", "bytes"],
)
def test_the_oldest_of_an_event_goes_first(messages: int, left: int) -> None:
    size = 1 if messages > 3 else kept.MOST_BYTES // 2
    held = Kept()
    for number in range(messages):
        held.put("a", bytes([number]) * size)
    found = held.take("a")
    assert [message[0] for message in found] == list(range(messages - left, messages))


def test_all_events_together_are_bounded_and_a_rare_one_stays() -> None:
    held = Kept()
    held.put("rare", b"x")
    for number in range(2 * kept.MOST_BYTES_OF_ALL // kept.MOST_BYTES):
        held.put(f"often {number}", bytes(kept.MOST_BYTES))
    assert held.take("rare") == [b"x"]


class Loop:
    """DI-engine's event loop, without its threads (ding 0.5.3, ding/framework/event_loop.py)."""

    def __init__(self) -> None:
        self.listeners = defaultdict[str, list[Callable[[bytes], None]]](list)

    def listened(self, event: str) -> bool:
        return event in self.listeners


class Queue:
    """A message queue that records published messages."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []
        self.dijob_finish_heard, self._running = False, True

    def publish(self, topic: str, data: bytes) -> None:
        self.published.append((topic, data))


def parallel() -> Any:
    """A class with the patched part of DI-engine's Parallel."""

    class Parallel:
        def __init__(self) -> None:
            self._event_loop, self._mq = Loop(), Queue()

        def _handle_message(self, topic: str, msg: bytes) -> None:
            for listener in self._event_loop.listeners.get(topic, ()):
                listener(msg)

        def on(self, event: str, fn: Callable[[bytes], None]) -> None:
            self._event_loop.listeners[event].append(fn)

        once = on

    kept.patch(Parallel)
    return Parallel()


def test_a_listener_gets_earlier_and_later_events() -> None:
    router, heard = parallel(), list[bytes]()
    router._handle_message("a", b"1")
    router._handle_message("b", b"other")
    router.on("a", heard.append)
    router._handle_message("a", b"2")
    assert heard == [b"1", b"2"]


def test_events_after_the_end_of_a_listener_are_not_kept() -> None:
    router, heard = parallel(), list[bytes]()
    router.once("a", heard.append)
    router._event_loop.listeners.clear()
    router._handle_message("a", b"meanwhile")
    router.on("a", heard.append)
    assert heard == []


@pytest.mark.parametrize("hub", [True, False])
def test_the_hub_of_a_star_passes_the_finish_on_once(hub: bool) -> None:
    router = parallel()
    router.dijob_hub = hub
    router.on("task.finish", lambda _: None)
    for _ in range(2):
        router._handle_message("task.finish", b"true")
    assert router._mq.published == [("task.finish", b"true")] * hub
    assert router._mq.dijob_finish_heard
    # The next task has its own end.
    router.on("task.finish", lambda _: None)
    assert (router._mq.dijob_finish_heard, router.dijob_relayed) == (False, False)


def test_a_finish_that_came_before_its_task_is_known_to_it() -> None:
    router, heard = parallel(), list[bytes]()
    router._handle_message("task.finish", b"true")
    router.on("task.finish", heard.append)
    assert (heard, router._mq.dijob_finish_heard) == ([b"true"], True)


def test_once_gets_the_oldest_message() -> None:
    router, heard = parallel(), list[bytes]()
    for word in (b"1", b"2"):
        router._handle_message("a", word)
    router.once("a", heard.append)
    assert heard == [b"1"]


def test_messages_of_torchrpc_are_kept_too() -> None:
    """A large message is a view of a tensor's memory. A message with GPU tensors has a size."""
    router, heard = parallel(), list[Any]()
    view, packed = memoryview(b"large"), SimpleNamespace(size=3)
    router._handle_message("a", view)
    router._handle_message("a", packed)
    router.on("a", heard.append)
    assert heard == [view, packed]


def test_one_message_is_kept_whatever_its_size() -> None:
    held = Kept()
    held.put("a", bytes(kept.MOST_BYTES + 1))
    assert len(held.take("a")) == 1


def test_a_large_world_has_room_for_two_messages_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DI_WORLD_SIZE", "200")
    held = Kept()
    for _ in range(500):
        held.put("a", b"x")
    assert len(held.take("a")) == 400
