"""A simulated API server on the loopback interface. It can delay or reject writes."""

import asyncio
import json

from aiohttp import web

BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}


class Server:
    """Serves watches and writes. Each watch sends one bookmark and stays open. Writes in namespaces
    whose names begin with "slow" never end. Each item of `rejections` is the response to one write,
    with a Retry-After of `again` seconds. `writes` has the times of all writes in other
    namespaces, including rejected ones.
    """

    again = 1

    def __init__(self) -> None:
        self.watches = 0
        self.hanging = 0
        self.rejections: list[dict[str, str]] = []
        self.writes: list[float] = []
        self._over = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await self._watch(request)
        if request.method != "GET" and request.match_info["namespace"].startswith("slow"):
            self.hanging += 1
            await self._over.wait()
        if request.method != "GET":
            self.writes.append(asyncio.get_running_loop().time())
            if self.rejections:
                again = {"Retry-After": str(self.again)}
                return web.json_response(self.rejections.pop(), status=429, headers=again)
        return web.json_response({"metadata": {"name": "x"}})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps(BOOKMARK).encode() + b"\n")
        self.watches += 1
        await self._over.wait()
        return response

    def end(self) -> None:
        self._over.set()
