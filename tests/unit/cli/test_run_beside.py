"""`run --code` does not overwrite a ConfigMap of another owner."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from dijob.cli.errors import Exit
from dijob.cli.main import group
from unit.client.kubelets import JOBS, Kubelets, kubelets

Body = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps/{name}"
OWNERS: dict[str, tuple[list[Body], bool]] = {
    "nobody's": ([], False),
    "of another job": ([{"kind": "DIJob", "name": "other", "uid": "o"}], False),
    "of another kind": ([{"kind": "Deployment", "name": "test", "uid": "o"}], False),
    "of a former job of this name": ([{"kind": "DIJob", "name": "test", "uid": "o"}], True),
}


async def run(kubeconfig: str, code: Path) -> Result:
    args = ["run", "test", "--image", "x", "--code", str(code), "--kubeconfig", kubeconfig]
    args += ["--", "python", "main.py"]
    return await asyncio.to_thread(lambda: CliRunner().invoke(group, args))


@pytest.mark.parametrize(("owners", "taken"), OWNERS.values(), ids=OWNERS)
async def test_run_only_overwrites_its_own_config_map(
    tmp_path: Path, owners: list[Body], taken: bool
) -> None:
    applied: list[str] = []
    (tmp_path / "main.py").write_text("print(1)")

    async def apply(request: web.Request) -> web.Response:
        body = json.loads(await request.text())
        body["metadata"] |= {"namespace": "default", "uid": "new"}
        if "dryRun" not in request.query:
            applied.append(body["kind"])
        return web.json_response(body)

    async def there(request: web.Request) -> web.Response:
        meta = {"name": request.match_info["name"], "ownerReferences": owners}
        return web.json_response({"metadata": meta, "data": {"precious": "data"}})

    def routes(made: Kubelets) -> tuple[web.RouteDef, ...]:
        made.job = None
        return web.patch(f"{JOBS}/{{name}}", apply), web.patch(MAPS, apply), web.get(MAPS, there)

    async with kubelets(tmp_path, routes) as (_, kubeconfig):
        done = await run(kubeconfig, tmp_path / "main.py")
    if taken:
        assert (done.exit_code, applied[:2]) == (Exit.OK, ["DIJob", "ConfigMap"])
    else:
        assert (done.exit_code, applied) == (Exit.REFUSED, [])
        assert (
            "the ConfigMap test-code in namespace default does not belong to this job"
            in done.output
        )
