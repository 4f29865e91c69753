"""A store of simple objects, with an apiserver whose watches end after a while."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
from dijob.controller.cache import reflector
from dijob.controller.cache.informer import Informer
from dijob.kube.api import RequestError, Stream
from dijob.process.clock import SYSTEM, Clock

from fakes.fake_api import Body, FakeApi, Over


@dataclass(frozen=True)
class Thing:
    uid: str
    owner: str
    version: str


def body(uid: str, version: int = 1, owner: str = "a") -> Body:
    return {"metadata": {"uid": uid, "resourceVersion": str(version), "owner": owner}}


def thing(raw: Any) -> Thing:
    meta = raw["metadata"]
    return Thing(meta["uid"], meta["owner"], meta["resourceVersion"])


def page(version: int, *items: Body, token: str = "") -> Body:
    return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)}


def event(type_: str, raw: Body) -> Body:
    return {"type": type_, "object": raw}


def made(*paths: str, clock: Clock = SYSTEM) -> Informer[Thing]:
    return Informer(
        "things", tuple(Stream(path, "x=y") for path in paths or ("/things",)), thing, clock
    )


async def run(under_test: Informer[Thing], api: FakeApi) -> list[str]:
    """Run the script to its end. Return the owners whose changes were reported."""
    told: list[str] = []
    under_test.on_change = told.append
    with pytest.raises(Over):
        await under_test.run(api.api())
    return told


def uids(under_test: Informer[Thing], owner: str = "a") -> set[str]:
    return {one.uid for one in under_test.of(owner)}


class Sleeper(Clock):
    """A clock that advances while the store sleeps and while a watch lasts."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    def spread(self, seconds: float, share: float = 0.2) -> float:
        return seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class Brief(FakeApi):
    """Each watch ends after the scripted number of seconds. Every list has the same content."""

    def __init__(
        self, clock: Sleeper, ending: list[Body | RequestError], seconds: list[float]
    ) -> None:
        super().__init__()
        self.sleeper, self.ending, self.seconds = clock, ending, seconds

    async def get(self, path: str, **query: str) -> Body:
        self.lists = [page(5)]
        return await super().get(path, **query)

    async def watch(self, stream: Stream) -> AsyncGenerator[Body]:
        if not stream.initial:
            if not self.seconds:
                raise Over
            self.sleeper.seconds += self.seconds.pop(0)
            self.watches = [self.ending]
        async for one in super().watch(stream):
            yield one


END = {
    "type": "BOOKMARK",
    "object": {
        "metadata": {"resourceVersion": "9", "annotations": {reflector.INITIAL_END: "true"}}
    },
}
