"""One list-and-watch closes its connections."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from dijob.controller.cache.children import Children
from dijob.controller.cache.informer import Informer
from dijob.kube.api import Stream
from dijob.kube.kinds import PODS
from fakes.fake_api import Body, FakeApi


@dataclass
class Connections(FakeApi):
    """Counts the watches that are open."""

    open: int = 0

    async def watch(self, stream: Stream) -> AsyncGenerator[Body]:
        self.open += 1
        try:
            yield {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
            yield {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
        finally:
            self.open -= 1


async def test_a_watch_that_the_apiserver_ends_is_closed_at_once() -> None:
    """R14: the connection stayed open until Python's garbage collector ran."""
    api, pods = Connections(), Children.of(()).stores[PODS.name]
    assert isinstance(pods, Informer)
    assert await pods.reflectors[0]._follow(api.api(), "1") == ""
    assert api.open == 0
