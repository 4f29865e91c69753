"""Claims: a namespace is served by its own release, else by the release for the whole cluster."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from dijob.controller.leader.claims import LOOK_SECONDS, SEEN_SECONDS, STALE_SECONDS, Claims
from dijob.kube.api import Api, RequestError
from dijob.kube.connection import OperatorRequest
from dijob.kube.kinds import LEASES
from dijob.names import CLAIM
from simulator.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

Body = dict[str, Any]


@dataclass
class Server:
    """Stores the Leases named CLAIM by namespace, as the apiserver does."""

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
            raise RequestError(404, "NotFound", "there is none")
        return self.leases[namespace]

    async def call(self, call: OperatorRequest) -> Body:
        self._answers()
        assert call.body is not None
        parts = call.path.split("/")
        namespace = parts[parts.index("namespaces") + 1]
        known = self.leases.get(namespace, {}).get("metadata", {}).get("resourceVersion", "")
        if call.body["metadata"].get("resourceVersion", "") != known:
            raise RequestError(409, "Conflict", "it has changed")
        self.put(namespace, call.body["spec"])
        return self.leases[namespace]

    def put(self, namespace: str, spec: Body) -> None:
        self.version += 1
        meta = {"name": CLAIM, "namespace": namespace, "resourceVersion": str(self.version)}
        self.leases[namespace] = {"metadata": meta, "spec": spec}

    def _answers(self) -> None:
        if self.refuses:
            raise RequestError(self.refuses, "InternalError", "no")


class Release:
    """The leader of a release, after `start`."""

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
    """Let time pass, and check the condition every second."""
    for _ in range(int(seconds * 10)):
        await asyncio.sleep(0.1)
        assert check()


async def test_a_namespace_is_never_served_by_two_releases() -> None:
    server = Server()
    whole = Release(server, "home/whole").start()
    await passes(1)
    assert whole.serves("a")
    assert whole.serves("b")
    few = Release(server, "a/few", "a").start()
    await passes(60, lambda: not (whole.serves("a") and few.serves("a")))
    assert (few.serves("a"), whole.serves("a"), whole.serves("b")) == (True, False, True)
    await few.end()
    # The last renewal of the claim was up to one interval ago.
    await passes(STALE_SECONDS - LOOK_SECONDS - 1, lambda: not whole.serves("a"))
    await passes(3 * LOOK_SECONDS)
    assert whole.serves("a")


async def test_a_new_leader_of_the_same_release_starts_at_once() -> None:
    server = Server()
    first = Release(server, "a/few", "a").start()
    await passes(SEEN_SECONDS + 1)
    assert first.serves("a")
    await first.end()
    second = Release(server, "a/few", "a").start()
    await passes(0.2)
    assert second.serves("a")


async def test_the_first_of_two_releases_keeps_the_namespace() -> None:
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
        pytest.param({}, id="as the chart creates it"),
        pytest.param({"holderIdentity": ""}, id="emptied by hand"),
        pytest.param({"holderIdentity": None}, id="null"),
    ],
)
async def test_a_lease_without_a_holder_is_not_a_claim(spec: Body) -> None:
    server = Server()
    server.put("a", spec)
    whole = Release(server, "home/whole").start()
    await passes(1)
    assert whole.serves("a")
    few = Release(server, "a/few", "a").start()
    await passes(SEEN_SECONDS + 1)
    assert few.serves("a")
    assert server.leases["a"]["spec"]["holderIdentity"] == "a/few"


async def test_an_error_while_reading_claims_stops_no_release() -> None:
    server = Server(refuses=403)
    whole, few = Release(server, "home/whole").start(), Release(server, "a/few", "a").start()
    await passes(3 * STALE_SECONDS)
    assert whole.serves("b")
    assert few.serves("a")
