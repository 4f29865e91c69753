"""The methods that change a job return it, so that a program or a notebook sees what was stored."""

from pathlib import Path
from typing import Any

from aiohttp import web
from dijob.client import AsyncClient, Job, build
from unit.client.kubelets import JOBS, Kubelets, kubelets
from unit.client.stores import Store
from unit.client.test_restarting import config_map, mounting, running

SPEC = mounting()["spec"]


class Scaled(Store):
    """A store whose jobs can be scaled."""

    def routes(self, made: Kubelets) -> list[web.RouteDef]:
        async def scale(request: web.Request) -> web.Response:
            assert made.job is not None
            made.job["spec"] |= (await request.json())["spec"]
            # The answer is a Scale, which has neither the spec nor the status of the job.
            return web.json_response({"kind": "Scale", "spec": {"replicas": 5}})

        return [*super().routes(made), web.patch(f"{JOBS}/test/scale", scale)]


async def test_apply_returns_a_job_for_a_dijob_only(tmp_path: Path) -> None:
    async with (
        kubelets(tmp_path, Store().routes) as (_, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        made = await client.apply(build("test", SPEC))
        assert repr(made).startswith("<Job default/test: Pending: ")
        assert isinstance(await client.apply(mounting(), dry_run=True), Job)
        other = await client.apply(config_map("code", "new"))
        assert isinstance(other, dict)
        owned = await client.apply_owned(config_map("code", "new"), made)
        assert owned["metadata"]["ownerReferences"][0]["uid"] == made.metadata.uid


async def test_methods_that_change_a_job_return_it(tmp_path: Path) -> None:
    async with (
        kubelets(tmp_path, Scaled().routes) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        running(made)

        def spec(job: Job) -> dict[str, Any]:
            return dict(job.body["spec"])

        assert spec(await client.scale("test", 5))["replicas"] == 5
        assert spec(await client.suspend("test"))["suspend"] is True
        assert spec(await client.resume("test"))["suspend"] is False
        assert (await client.restart("test", mounting(), timeout=10)).metadata.uid == "new-uid"
