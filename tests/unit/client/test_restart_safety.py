"""A restart affects no other job, and loses no job, even if pods remain or an error occurs between
the deletion and the creation.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result
from dijob.cli.main import group
from dijob.client import AsyncClient, BadFile, Refused, TimedOut, check
from dijob.client.restarting import build_new_job, rename_for_dry_run
from manifests import dijob
from unit.client.kubelets import JOBS, Kubelets, kubelets
from unit.client.stores import Store
from unit.client.test_restarting import mounting, running

Body = dict[str, Any]
OWNERS = [{"apiVersion": "x/v1", "kind": "Workflow", "name": "w", "uid": "w"}]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[tuple[Kubelets, str]]:
    async with kubelets(tmp_path, Store().routes) as (made, kubeconfig):
        running(made)
        yield made, kubeconfig


def meta_of(made: Kubelets) -> Body:
    assert made.job is not None
    found: Body = made.job["metadata"]
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"namespace": "team-a"}, "test in namespace team-a, not test in namespace default"),
        ({"name": "other"}, "other in namespace default, not test in namespace default"),
    ],
    ids=["another namespace", "another name"],
)
async def test_restart_rejects_the_file_of_another_job(
    world: tuple[Kubelets, str], change: Body, said: str
) -> None:
    made, kubeconfig = world
    body = mounting()
    body["metadata"] |= change
    async with AsyncClient(kubeconfig) as client:
        with pytest.raises(BadFile, match=said):
            await client.restart("test", body)
    assert meta_of(made)["uid"] == "old"


async def test_the_new_job_waits_for_remaining_pods(world: tuple[Kubelets, str]) -> None:
    made, kubeconfig = world
    await made.start(0)
    made.pods["test-0"]["metadata"]["ownerReferences"] = [{"uid": "old"}]
    async with AsyncClient(kubeconfig) as client:
        await client.restart("test", timeout=0.3)
    assert meta_of(made)["uid"] == "new-uid"


async def test_a_restarted_job_keeps_its_owner(world: tuple[Kubelets, str]) -> None:
    made, kubeconfig = world
    meta_of(made)["ownerReferences"] = OWNERS
    async with AsyncClient(kubeconfig) as client:
        await client.restart("test", mounting(), timeout=10)
    assert (meta_of(made)["uid"], meta_of(made)["ownerReferences"]) == ("new-uid", OWNERS)


def found(folder: Path) -> list[Path]:
    """Return the files with objects that could not be created."""
    return sorted(folder.glob("dijob-restart-*/*"))


def job_in(file: Path) -> Body:
    body: Body = yaml.safe_load(file.read_text())
    return body


async def restarted(kubeconfig: str, *words: str) -> Result:
    args = ["restart", "test", *words, "--kubeconfig", kubeconfig]
    return await asyncio.to_thread(lambda: CliRunner().invoke(group, args))


async def test_objects_of_an_interrupted_restart_are_kept_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The apiserver becomes unreachable between the deletion and the creation."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def refuse(request: web.Request) -> web.Response:
        dry = "dryRun" in request.query
        return web.json_response(mounting() if dry else {}, status=200 if dry else 500)

    async def delete(request: web.Request) -> web.Response:
        made.job = None
        await made.change()
        return web.json_response({})

    def routes(_: Kubelets) -> tuple[web.RouteDef, ...]:
        return web.patch(f"{JOBS}/{{name}}", refuse), web.delete(f"{JOBS}/test", delete)

    async with kubelets(tmp_path, routes) as (made, kubeconfig):
        running(made)
        done = await restarted(kubeconfig)
    assert done.exit_code != 0
    (kept,) = found(tmp_path)
    assert f"kubectl dijob apply -n default -f {kept}" in done.stderr
    assert job_in(kept)["spec"] == mounting()["spec"]


async def test_a_successful_restart_leaves_no_file(
    world: tuple[Kubelets, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, kubeconfig = world
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = await restarted(kubeconfig)
    assert (done.exit_code, done.stdout) == (0, "dijob/test restarted\n")
    assert found(tmp_path) == []


async def test_restart_uses_the_namespace_of_the_file(
    world: tuple[Kubelets, str], tmp_path: Path
) -> None:
    made, kubeconfig = world
    body = mounting()
    body["metadata"]["namespace"] = "team-a"
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(body))
    await restarted(kubeconfig, "-f", str(tmp_path / "job.yaml"))
    assert meta_of(made)["uid"] == "old"


async def test_a_job_held_by_a_finalizer_is_not_recreated(tmp_path: Path) -> None:
    async def accept(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"uid": "old"}})

    def routes(_: Kubelets) -> tuple[web.RouteDef, ...]:
        return web.patch(f"{JOBS}/{{name}}", accept), web.delete(f"{JOBS}/test", accept)

    async with (
        kubelets(tmp_path, routes) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        running(made)
        with pytest.raises(TimedOut, match="its finalizers have not been removed yet"):
            await client.restart("test", timeout=0.3)
        assert meta_of(made)["uid"] == "old"


async def test_a_rejected_trial_names_the_job_itself(tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return web.json_response({"message": f'dijobs "{name}" is forbidden'}, status=403)

    async with (
        kubelets(tmp_path, lambda _: [web.patch(f"{JOBS}/{{name}}", refuse)]) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        running(made)
        with pytest.raises(Refused, match='dijobs "test" is forbidden'):
            await client.restart("test")


def test_every_valid_job_can_be_tried() -> None:
    """A pod's name contains that of its task, which limits the length of the job's name further."""
    body = mounting()
    template = body["spec"].pop("template")
    body["spec"].pop("replicas")
    body["metadata"]["name"] = "a" * 17
    task = {"name": "x" * 40, "type": "collector", "replicas": 1}
    body["spec"]["tasks"] = [{**task, "template": template}]
    check(body)
    check(rename_for_dry_run(body))


def test_the_job_of_a_file_is_created_as_written() -> None:
    new = dijob("test", {"image": "y", "command": ["a"]}, replicas=1)
    old = mounting()
    old["metadata"] |= {"namespace": "default", "ownerReferences": OWNERS}
    assert build_new_job("test", "default", old, new)["metadata"] == {
        "name": "test",
        "ownerReferences": OWNERS,
    }
    assert build_new_job("test", "default", None, new)["metadata"] == {"name": "test"}
