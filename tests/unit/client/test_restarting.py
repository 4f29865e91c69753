"""The restart of a job: other objects in its file, and ConfigMaps that it owns."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from dijob.client import AsyncClient, Refused
from dijob.client.restarting import split_manifests
from manifests import dijob
from unit.client.kubelets import JOBS, Kubelets, kubelets

Body = dict[str, Any]
PLACE = "/api/v1/namespaces/default/configmaps/{name}"


def config_map(name: str, text: str, kind: str = "ConfigMap", **meta: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, **meta},
        "data": {"a": text},
    }


KEPT = config_map("code", "old", namespace="ns", uid="c", ownerReferences=[{"uid": "u"}])
WRITTEN = config_map("code", "old", namespace="ns")
NEW = config_map("code", "new")
ELSEWHERE = config_map("code", "new", namespace="other")
SECRET = config_map("code", "new", kind="Secret")
OTHER = config_map("other", "new")


@pytest.mark.parametrize(
    ("beside", "kept", "first", "anew"),
    [
        pytest.param([], [KEPT], [], [WRITTEN], id="kept unchanged"),
        pytest.param([NEW, OTHER], [KEPT], [OTHER], [NEW], id="replaced by that of the file"),
        pytest.param([NEW], [], [NEW], [], id="not owned before"),
        pytest.param([ELSEWHERE], [KEPT], [ELSEWHERE], [WRITTEN], id="of another namespace"),
        pytest.param([SECRET], [KEPT], [SECRET], [WRITTEN], id="of another kind"),
    ],
)
def test_config_maps_that_are_recreated_with_the_job(
    beside: list[Body], kept: list[Body], first: list[Body], anew: list[Body]
) -> None:
    assert split_manifests(beside, kept) == (first, anew)


class Store:
    """ConfigMaps that are deleted with their owner. Changes can be rejected."""

    def __init__(self, *bodies: Body) -> None:
        self.bodies = {body["metadata"]["name"]: body for body in bodies}
        self.refused = False

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
        jobs: dict[str, Body] = {}
        answer = await _stored(request, jobs)
        made.job = jobs.get("test", made.job)
        return answer

    async def delete_job(self, made: Kubelets, request: web.Request) -> web.Response:
        assert made.job is not None
        uid, made.job = made.job["metadata"]["uid"], None
        self.bodies = {name: one for name, one in self.bodies.items() if uid not in owners(one)}
        await made.change()
        return web.json_response({})


async def _stored(request: web.Request, bodies: dict[str, Body]) -> web.Response:
    body = json.loads(await request.text())
    body["metadata"] |= {"namespace": "default", "uid": "anew", "resourceVersion": "9"}
    if "dryRun" not in request.query:
        name = body["metadata"]["name"]
        bodies[name] = bodies.get(name, {}) | body
    return web.json_response(body)


def owners(body: Mapping[str, Any]) -> list[str]:
    return [owner["uid"] for owner in body["metadata"].get("ownerReferences", ())]


def mounting() -> Body:
    """Return the job with its code on a volume."""
    main = {"image": "y", "command": ["a"]}
    volumes = [{"name": "c", "configMap": {"name": "code"}}]
    return dijob("test", main, {"volumes": volumes}, replicas=1)


def running(made: Kubelets) -> None:
    body = mounting()
    body["metadata"] |= {"namespace": "default", "uid": "old", "resourceVersion": "1"}
    made.job = body


def owned() -> Body:
    return config_map("code", "old", namespace="default", ownerReferences=[{"uid": "old"}])


async def test_code_in_the_file_is_owned_by_the_new_job(tmp_path: Path) -> None:
    store = Store(owned())
    async with (
        kubelets(tmp_path, store.routes) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        running(made)
        await client.restart("test", mounting(), beside=[NEW, OTHER], timeout=10)
    assert {name: body["data"]["a"] for name, body in store.bodies.items()} == {
        "code": "new",
        "other": "new",
    }
    assert owners(store.bodies["code"]) == ["anew"]
    assert owners(store.bodies["other"]) == []


async def test_rejected_code_does_not_delete_the_job(tmp_path: Path) -> None:
    store = Store(owned())
    store.refused = True
    async with (
        kubelets(tmp_path, store.routes) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        running(made)
        with pytest.raises(Refused, match="too long"):
            await client.restart("test", mounting(), beside=[NEW], timeout=10)
        assert made.job is not None
        assert made.job["metadata"]["uid"] == "old"
    assert store.bodies["code"]["data"] == {"a": "old"}
