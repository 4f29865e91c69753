"""Documents that are nested too deeply, and an apiserver whose lists and watches contain one."""

import asyncio
import json

from aiohttp import web
from dijob import names
from samples.builders import Body, job_body

# The limit of Go's decoder, and therefore of the apiserver.
DEEPEST = 10_000


def nested(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    return opening * levels + "1" + closing * levels


def listed(levels: int, opening: str = '{"a":', closing: str = "}") -> bytes:
    """Return a list of a poisoned job and a healthy one."""
    made = [job_body(pod={"x": 0}), job_body()]
    made[0]["metadata"]["uid"] = "poison"
    return (
        json.dumps({"items": made})
        .replace('"x": 0', f'"x": {nested(levels, opening, closing)}')
        .encode()
    )


def resource(plural: str, singular: str, kind: str) -> Body:
    verbs = ["list", "watch", "patch"]
    return {
        "name": plural,
        "singularName": singular,
        "kind": kind,
        "namespaced": True,
        "verbs": verbs,
    }


VERSION = {"version": names.VERSION}
DISCOVERY: Body = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [resource("namespaces", "namespace", "Namespace")]},
    "/apis": {
        "groups": [{"name": names.GROUP, "versions": [VERSION], "preferredVersion": VERSION}]
    },
    f"/apis/{names.API_VERSION}": {"resources": [resource(names.PLURAL, "dijob", names.KIND)]},
}


async def answer(request: web.Request) -> web.StreamResponse:
    """Serve a list with a poisoned and a healthy job, and a watch with both."""
    if request.path in DISCOVERY:
        return web.json_response(DISCOVERY[request.path])
    if "watch" not in request.query:
        return web.Response(body=listed(DEEPEST), content_type="application/json")
    response = web.StreamResponse()
    await response.prepare(request)
    poisoned = nested(DEEPEST).encode()
    healthy = json.dumps(job_body(status={"phase": "Running"})).encode()
    for object_ in (b'{"metadata":{"uid":"poison"},"spec":%s}' % poisoned, healthy):
        # In pieces, as they arrive from a network.
        line = b'{"type":"MODIFIED","object":%s}\n' % object_
        for piece in (line[:1000], line[1000:]):
            await response.write(piece)
            await asyncio.sleep(0)
    return response
