"""Which release serves a namespace: one that was given it, else the one for the whole cluster."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from dijob.names import CLAIM
from dijob.shell.api import Api, ApiError
from dijob.shell.claims import LOOK_SECONDS, SEEN_SECONDS, STALE_SECONDS, Claims
from dijob.shell.connection import Call
from dijob.shell.kinds import LEASES
from unit.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

Body = dict[str, Any]


@dataclass
class Server:
    """Keeps the Leases named CLAIM, by namespace, as the apiserver does."""

    leases: dict[str, Body] = field(default_factory=dict)
    version: int = 1
    refuses: int = 0

    async def get(self, path: str, **query: str) -> Body:
        self._answers()
        if path == LEASES.path():
            assert query == {"fieldSelector": f"metadata.name={CLAIM}"}
            return {"items": list(self.leases.values())}
        namespace = path.split("/")[-3]
        assert path == LEASES.path(namespace, CLAIM)
        if namespace not in self.leases:
            raise ApiError(404, "NotFound", "there is none")
        return self.leases[namespace]

    async def call(self, call: Call) -> Body:
        self._answers()
        assert call.body is not None
        parts = call.path.split("/")
        namespace = parts[parts.index("namespaces") + 1]
        known = self.leases.get(namespace, {}).get("metadata", {}).get("resourceVersion", "")
        if call.body["metadata"].get("resourceVersion", "") != known:
            raise ApiError(409, "Conflict", "it has changed")
        self.put(namespace, call.body["spec"])
        return self.leases[namespace]

    def put(self, namespace: str, spec: Body) -> None:
        self.version += 1
        meta = {"name": CLAIM, "namespace": namespace, "resourceVersion": str(self.version)}
        self.leases[namespace] = {"metadata": meta, "spec": spec}

    def _answers(self) -> None:
        if self.refuses:
            raise ApiError(self.refuses, "InternalError", "no")


class Release:
    """The operator of a release that acts, from `start` on."""

    def __init__(self, server: Server, name: str, *namespaces: str) -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        self.claims = Claims(cast(Api, server), name, namespaces, clock)
        self.began = False
        self._task: asyncio.Task[None]

    def start(self) -> "Release":
        self._task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        await self.claims.begin()
        self.began = True
        await self.claims.run()

    def serves(self, namespace: str) -> bool:
        return self.began and not self.claims.other(namespace)

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.began = False


async def passes(seconds: float, check: Callable[[], bool] = lambda: True) -> None:
    """So many seconds pass, in each of which it is so."""
    for _ in range(int(seconds * 10)):
        await asyncio.sleep(0.1)
        assert check()


async def test_a_namespace_is_served_by_its_own_release_and_never_by_two() -> None:
    server = Server()
    whole = Release(server, "home/whole").start()
    await passes(1)
    assert whole.serves("a")
    assert whole.serves("b")
    few = Release(server, "a/few", "a").start()
    await passes(60, lambda: not (whole.serves("a") and few.serves("a")))
    assert (few.serves("a"), whole.serves("a"), whole.serves("b")) == (True, False, True)
    await few.end()
    # It has renewed its claim one look ago, or just now.
    await passes(STALE_SECONDS - LOOK_SECONDS - 1, lambda: not whole.serves("a"))
    await passes(3 * LOOK_SECONDS)
    assert whole.serves("a")


async def test_an_operator_that_takes_over_within_its_release_begins_at_once() -> None:
    server = Server()
    first = Release(server, "a/few", "a").start()
    await passes(SEEN_SECONDS + 1)
    assert first.serves("a")
    await first.end()
    second = Release(server, "a/few", "a").start()
    await passes(0.2)
    assert second.serves("a")


async def test_of_two_releases_that_are_given_a_namespace_the_first_one_has_it() -> None:
    server = Server()
    first = Release(server, "a/first", "a", "b").start()
    await passes(1)
    second = Release(server, "b/second", "b", "c").start()
    await passes(60, lambda: not (first.serves("b") and second.serves("b")))
    served = [[release.serves(name) for name in "abc"] for release in (first, second)]
    assert served == [[True, True, True], [True, False, True]]
    await first.end()
    await passes(STALE_SECONDS + 2 * LOOK_SECONDS)
    assert second.serves("b")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="the chart's"),
        pytest.param({"holderIdentity": ""}, id="emptied by hand"),
        pytest.param({"holderIdentity": None}, id="null"),
    ],
)
async def test_a_lease_that_names_nobody_is_no_claim(spec: Body) -> None:
    server = Server()
    server.put("a", spec)
    whole = Release(server, "home/whole").start()
    await passes(1)
    assert whole.serves("a")
    few = Release(server, "a/few", "a").start()
    await passes(SEEN_SECONDS + 1)
    assert few.serves("a")
    assert server.leases["a"]["spec"]["holderIdentity"] == "a/few"


async def test_nobody_stops_serving_because_claims_cannot_be_read() -> None:
    server = Server(refuses=403)
    whole, few = Release(server, "home/whole").start(), Release(server, "a/few", "a").start()
    await passes(3 * STALE_SECONDS)
    assert whole.serves("b")
    assert few.serves("a")
