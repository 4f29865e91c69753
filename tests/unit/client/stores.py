"""ConfigMaps of a simulated apiserver, which are deleted together with the job that owns them."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from aiohttp import web
from unit.client.kubelets import JOBS, Kubelets

Body = dict[str, Any]
PLACE = "/api/v1/namespaces/default/configmaps/{name}"


class Store:
    """ConfigMaps that are deleted with their owner. Changes can be rejected."""

    def __init__(self, *bodies: Body) -> None:
        self.bodies = {body["metadata"]["name"]: body for body in bodies}
        self.refused = False
        self.suspended = False
        """Whether a job was suspended when it was created."""

    def routes(self, made: Kubelets) -> Iterable[web.RouteDef]:
        return (
            web.get(PLACE, self.read),
            web.patch(PLACE, self.write),
            web.patch(f"{JOBS}/{{name}}", partial(self.write_job, made)),
            web.delete(f"{JOBS}/test", partial(self.delete_job, made)),
        )

    async def read(self, request: web.Request) -> web.Response:
        found = self.bodies.get(request.match_info["name"])
        return web.json_response(found or {}, status=200 if found else 404)

    async def write(self, request: web.Request) -> web.Response:
        if self.refused:
            return web.json_response({"message": "data is too long"}, status=422)
        return await _stored(request, self.bodies)

    async def write_job(self, made: Kubelets, request: web.Request) -> web.Response:
        if request.content_type == "application/merge-patch+json":
            assert made.job is not None
            made.job["spec"] |= json.loads(await request.text())["spec"]
            await made.change()
            return web.json_response(made.job)
        self.suspended = self.suspended or json.loads(await request.text())["spec"].get("suspend")
        jobs: dict[str, Body] = {}
        answer = await _stored(request, jobs)
        made.job = jobs.get("test", made.job)
        await made.change()
        return answer

    async def delete_job(self, made: Kubelets, request: web.Request) -> web.Response:
        assert made.job is not None
        uid, made.job = made.job["metadata"]["uid"], None
        self.bodies = {name: one for name, one in self.bodies.items() if uid not in owners(one)}
        await made.change()
        return web.json_response({})


async def _stored(request: web.Request, bodies: dict[str, Body]) -> web.Response:
    body = json.loads(await request.text())
    body["metadata"] |= {"namespace": "default", "uid": "new-uid", "resourceVersion": "9"}
    if "dryRun" not in request.query:
        name = body["metadata"]["name"]
        bodies[name] = bodies.get(name, {}) | body
    return web.json_response(body)


def owners(body: Mapping[str, Any]) -> list[str]:
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences", ())]
