"""The watches of the simulated apiserver. They can be delayed, silent, broken or repeated."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from pydantic_core import to_json

from simulator.apiserver import ApiServer, Change
from simulator.objects import Body, No, Selector

BOOKMARK_SECONDS = 60.0
INITIAL_END = "k8s.io/initial-events-end"


@dataclass
class Watches:
    """All open watches. With `held`, events are delayed until `release`. With `lists`, a watch can
    begin with a list (the feature gate WatchList).
    """

    server: ApiServer
    held: bool = False
    lists: bool = True
    open: list["Watch"] = field(default_factory=list)
    _encoded: tuple[int, bytes] = (0, b"")
    _specs: dict[int, tuple[Body, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server.told.append(self._tell)

    def begin(self, selector: Selector, query: dict[str, str], silence: float) -> "Watch":
        watch = Watch(self, selector, silence)
        if query.get("sendInitialEvents") == "true":
            if not self.lists:
                raise No(
                    422,
                    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is"
                    " enabled",
                )
            for body in self.server.find(selector):
                watch.show("ADDED", body)
            watch.bookmark({INITIAL_END: "true"})
        else:
            try:
                for change in self.server.since(
                    query.get("resourceVersion") or str(self.server.version)
                ):
                    watch.tell(change)
            except No as error:
                watch.say("ERROR", error.body)
                watch.end()
        watch.last_until(float(query.get("timeoutSeconds", "300")))
        self.open.append(watch)
        return watch

    def release(self, count: int | None = None) -> None:
        """Deliver delayed events: all, or the first `count` of each watch."""
        for watch in self.open:
            watch.release(count)

    def silence(self) -> None:
        """Make all open watches silent, as if their connections were lost without an error."""
        for watch in self.open:
            watch.fall_silent()

    def end(self, how: str, lose: bool = True) -> None:
        """End all watches. `how` is "end" if the apiserver ends them, "reset" if the connections
        break, and "expired" if they lag too far behind. With `lose`, delayed events are never
        delivered.
        """
        for watch in list(self.open):
            watch.break_off(how, lose)

    def repeat(self, back: int = 1) -> None:
        """Deliver old events again, as another apiserver that lags behind would."""
        for watch in self.open:
            if len(watch.shown) >= back:
                watch.deliver(watch.shown[-back])

    def encoded(self, body: Body) -> bytes:
        version = int(body["metadata"]["resourceVersion"])
        if self._encoded[0] != version:
            self._encoded = version, self._encode(body)
        return self._encoded[1]

    def _encode(self, body: Body) -> bytes:
        """Return the JSON of an object. Specs are encoded once, because they are long and rarely
        change.
        """
        spec = body.get("spec")
        if spec is None:
            return to_json(body)
        if self._specs.get(id(spec), (None, b""))[0] is not spec:
            self._specs[id(spec)] = spec, to_json(spec)
        rest = to_json({name: value for name, value in body.items() if name != "spec"})
        return b'%s,"spec":%s}' % (rest[:-1], self._specs[id(spec)][1])

    def _tell(self, change: Change) -> None:
        for watch in self.open:
            watch.tell(change)


class Watch:
    """One watch with the interface of aiohttp: lines that arrive over time."""

    def __init__(self, watches: Watches, selector: Selector, silence: float) -> None:
        self.shown: deque[bytes] = deque(maxlen=8)
        self._mute = False
        self._watches = watches
        self._selector = selector
        self._silence = silence
        self._lines: deque[bytes | Exception | None] = deque()
        self._held: deque[bytes | Exception | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._ends = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> bytes:
        if not self._lines:
            await self._wait()
        line = self._lines.popleft()
        if line is None:
            raise StopAsyncIteration
        if isinstance(line, Exception):
            raise line
        self.shown.append(line)
        return line

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        limit = self._loop.call_later(self._silence, self._give_up)
        try:
            await self._waiter
        finally:
            limit.cancel()
            self._waiter = None

    def _give_up(self) -> None:
        self.deliver(TimeoutError("nothing heard for too long"))

    def close(self) -> None:
        if self in self._watches.open:
            self._watches.open.remove(self)
        if self._timer:
            self._timer.cancel()

    def last_until(self, seconds: float) -> None:
        self._ends = self._loop.time() + seconds
        self._timer = self._loop.call_later(BOOKMARK_SECONDS, self._tick)

    def _tick(self) -> None:
        if self._mute:
            return
        if self._loop.time() >= self._ends:
            self.end()
            return
        self.bookmark()
        self._timer = self._loop.call_later(BOOKMARK_SECONDS, self._tick)

    def tell(self, change: Change) -> None:
        """Deliver a change. For this watch, an object that is newly selected is ADDED, and one that
        is no longer selected is DELETED.
        """
        if change.target.plural != self._selector.target.plural:
            return
        was = change.before is not None and self._selector.takes(change.before)
        now = change.type != "DELETED" and self._selector.takes(change.body)
        if was or now:
            self.show("MODIFIED" if was and now else "ADDED" if now else "DELETED", change.body)

    def show(self, type_: str, body: Body) -> None:
        self._put(b'{"type":"%s","object":%s}\n' % (type_.encode(), self._watches.encoded(body)))

    def say(self, type_: str, body: Body) -> None:
        self._put(to_json({"type": type_, "object": body}) + b"\n")

    def bookmark(self, annotations: dict[str, str] | None = None) -> None:
        meta: dict[str, Any] = {"resourceVersion": str(self._watches.server.version)}
        self.say(
            "BOOKMARK", {"metadata": meta | ({"annotations": annotations} if annotations else {})}
        )

    def end(self) -> None:
        self._put(None)

    def fall_silent(self) -> None:
        self._mute = True
        self._held.clear()

    def break_off(self, how: str, lose: bool) -> None:
        if lose:
            self._held.clear()
        else:
            self.release(None)
        if how == "expired":
            self.deliver(
                to_json({"type": "ERROR", "object": No(410, "too old resource version").body})
                + b"\n"
            )
        self.deliver(aiohttp.ClientConnectionError("reset") if how == "reset" else None)

    def release(self, count: int | None) -> None:
        for _ in range(len(self._held) if count is None else min(count, len(self._held))):
            self.deliver(self._held.popleft())

    def deliver(self, line: bytes | Exception | None) -> None:
        self._lines.append(line)
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _put(self, line: bytes | Exception | None) -> None:
        if self._mute:
            return
        if self._watches.held:
            self._held.append(line)
        else:
            self.deliver(line)
