"""A lab for leader election: operators, the apiserver with the Lease, and connections that can
fail.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from dijob.controller.leader.lease import LEASE_SECONDS, LOOK_SECONDS, Lease, LeaseName
from dijob.kube.api import Api, RequestError
from dijob.kube.connection import OperatorRequest

from simulator.virtual import VirtualClock

Body = dict[str, Any]
PATH = "/apis/coordination.k8s.io/v1/namespaces/home/leases/dijob"
# The longest takeover after a crash. In the worst case, the leader crashes right after it has
# renewed the Lease, and the standby sees the renewal one poll later. After the Lease has expired,
# the standby needs another poll.
TAKE_OVER_SECONDS = LEASE_SECONDS + 2 * LOOK_SECONDS


@dataclass
class Server:
    """Stores one Lease as the apiserver does: a write with an old version is rejected."""

    lease: Body | None = field(default_factory=dict)
    version: int = 1
    writers: list[str] = field(default_factory=list)

    def read(self) -> Body:
        if self.lease is None:
            raise RequestError(404, "NotFound", "there is none")
        version = {"resourceVersion": str(self.version)}
        return {"metadata": version, "spec": dict(self.lease)}

    def write(self, version: str, spec: Body) -> Body:
        if version != (str(self.version) if self.lease is not None else ""):
            raise RequestError(409, "Conflict", "it has changed")
        self.lease = {**(self.lease or {}), **spec}
        self.version += 1
        self.writers.append(str(self.lease["holderIdentity"]))
        return self.read()


@dataclass
class Wire:
    """One operator's connection to the server, with a delay in each direction. While it is cut,
    requests wait, and arrive when it is repaired.
    """

    server: Server
    there: float = 0.0
    back: float = 0.0
    refuses: int = 0
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.whole.set()

    async def _sent(self, act: Callable[[], Body]) -> Body:
        await asyncio.sleep(self.there)
        if self.refuses:
            raise RequestError(self.refuses, "InternalError", "etcdserver: request timed out")
        await self.whole.wait()
        answer = act()
        await asyncio.sleep(self.back)
        return answer

    async def call(self, call: OperatorRequest) -> Body:
        """Deliver a request, even if the caller no longer waits for the response."""
        if call.method == "GET":
            assert call.path == PATH
            return await self._sent(self.server.read)
        assert call.body is not None
        meta, spec = call.body["metadata"], call.body["spec"]
        name = meta.get("name") or call.path.rpartition("/")[2]
        assert (call.method == "POST", name) == ("resourceVersion" not in meta, "dijob")
        version = meta.get("resourceVersion", "")
        late = self._sent(lambda: self.server.write(version, spec))
        return await asyncio.shield(asyncio.ensure_future(late))


class Operator:
    """One operator. It waits for the Lease, leads, and ends when another operator has the Lease."""

    def __init__(self, server: Server, identity: str) -> None:
        self.wire = Wire(server)
        self.identity = identity
        self.ended = False
        self.lease: Lease
        self._task: asyncio.Task[None]

    def start(self) -> "Operator":
        """Start a process; after `kill`, a new process in the same pod."""
        loop = asyncio.get_running_loop()
        name = LeaseName("home", "dijob", self.identity)
        self.lease = Lease(cast(Api, self.wire), name, VirtualClock(loop))
        self.ended = False
        self._task = loop.create_task(self._run())
        return self

    async def _run(self) -> None:
        await self.lease.acquire()
        await self.lease.keep()
        self.ended = True

    @property
    def leads(self) -> bool:
        return not self._task.cancelled() and self.lease.may_act

    async def kill(self) -> None:
        """Kill the process without a shutdown (kill -9)."""
        self._task.cancel()
        await asyncio.sleep(0)

    async def end(self) -> None:
        """Shut the process down (SIGTERM)."""
        await self.kill()
        await self.lease.release()


async def until(condition: Callable[[], bool], seconds: float) -> float:
    """Wait for a condition, and return how long it took. Fail after `seconds`."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began <= seconds, f"not within {seconds} s"
        await asyncio.sleep(0.01)
    return loop.time() - began
