"""Kills the operator or Kueue at each of its writes to Workloads, in two phases of a job's life.

Each program reaches the API server through its own proxy. The proxy kills the program before a
write arrives or after it has been executed. The program is started again, and the phase must end as
it would without a kill.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web
from faults.lab.exchange import Asked, Kill
from faults.lab.kube import Access
from faults.lab.proxy import Proxy

WORKLOADS_PATH = "/workloads"
# This many writes are a sign of a loop.
MOST_POINTS = 30


class JsonProxy(Proxy):
    """A proxy for a client that prefers protobuf. The proxy cannot read watches in protobuf."""

    def _headers(self, request: web.Request) -> dict[str, str]:
        headers = super()._headers(request)
        given = headers.pop("Accept", "application/json")
        parts = [part for part in given.split(",") if "protobuf" not in part]
        return {**headers, "Accept": ",".join(parts) or "application/json"}


def is_workload_write(asked: Asked) -> bool:
    """Whether a request changes a Workload of Kueue."""
    return "/kueue.x-k8s.io/" in asked.path and WORKLOADS_PATH in asked.path


class Killer:
    """The proxy of one program, in a thread with its own event loop. `end` kills the program, and
    `restart` starts it again.
    """

    def __init__(
        self, kubeconfig: Path, folder: Path, end: Callable[[], None], restart: Callable[[], None]
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._loop = asyncio.new_event_loop()
        self._proxy = JsonProxy(Access.of(kubeconfig), folder)
        self._end, self._restart = end, restart
        self._kill: Kill | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig with which the program reaches the proxy."""
        return self._proxy.kubeconfig

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the proxy."""
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        try:
            self._do(self._enter())
            yield
            self._do(self._proxy.__aexit__(None, None, None))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()

    def arm(self, number: int, after: bool) -> None:
        """Kill the program at the write with this number, counted from now (the next one is 1)."""
        self._do(self._arm(number, after))

    def fired(self) -> str:
        """If the program was killed, start it again, and return the write at which it was killed;
        else return "".
        """
        kill = self._kill
        if kill is None or not kill.done.is_set():
            return ""
        self._kill = None
        self._do(self._revive())
        self._restart()
        return str(kill.write)

    def disarm(self) -> None:
        """Stop killing the program."""
        self._kill = None
        self._do(self._revive())

    async def _enter(self) -> None:
        await self._proxy.__aenter__()

    async def _arm(self, number: int, after: bool) -> None:
        self._kill = Kill(number, after, self._end, is_workload_write)
        self._proxy.kill_at(self._kill)

    async def _revive(self) -> None:
        self._proxy.revive()

    def _do(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)
