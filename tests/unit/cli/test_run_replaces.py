"""`run --replace` deletes the job, creates it again with the new code, and prints its logs."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from dijob.cli.errors import Exit
from dijob.cli.main import group
from dijob.client.code import MOST_BYTES
from manifests import dijob
from unit.client.kubelets import OWNER, Kubelets, kubelets
from unit.client.stores import Store

SHAPE = ("--image", "new/image", "--replicas", "2")


async def run(kubeconfig: str, *words: str) -> Result:
    args = ["run", "test", "--kubeconfig", kubeconfig, *words]
    return await asyncio.to_thread(lambda: CliRunner().invoke(group, args))


def running(made: Kubelets) -> None:
    body = dijob("test", {"image": "old/image", "command": ["python", "main.py"]}, replicas=1)
    body["metadata"] |= {"namespace": "default", "uid": "old", "resourceVersion": "1"}
    made.job = body


async def until_new(made: Kubelets) -> None:
    while made.job is None or made.job["metadata"]["uid"] == "old":
        async with made.changed:
            await made.changed.wait()


@pytest.mark.parametrize(
    ("words", "image"),
    [
        pytest.param((), "old/image", id="only the code"),
        pytest.param((*SHAPE, "--", "python", "main.py"), "new/image", id="the whole job"),
    ],
)
async def test_replace_sends_the_code_and_prints_the_logs_until_the_end(
    tmp_path: Path, words: tuple[str, ...], image: str
) -> None:
    store = Store()
    (tmp_path / "main.py").write_text("print(2)")
    async with kubelets(tmp_path, store.routes) as (made, kubeconfig):
        running(made)
        code = ("--code", str(tmp_path / "main.py"), "--replace")
        done = asyncio.create_task(run(kubeconfig, *code, *words))
        async with asyncio.timeout(20):
            await until_new(made)
            await made.start(0)
            made.pods["test-0"]["metadata"]["ownerReferences"] = [OWNER | {"uid": "new-uid"}]
            await made.change()
            await made.say(0, 1, "step 1")
            await made.stop(0)
            await made.finish()
            result = await done
    assert result.exit_code == Exit.OK, result.output
    assert result.stdout.splitlines()[0] == "dijob/test replaced"
    assert "step 1" in result.stdout
    assert result.stdout.splitlines()[-1] == "test: Succeeded: done"
    assert made.job is not None
    (main,) = made.job["spec"]["template"]["spec"]["containers"]
    assert (main["image"], main["workingDir"]) == (image, "/work")
    assert store.bodies["test-code"]["data"] == {"main.py": "print(2)"}


async def test_a_job_with_several_config_maps_starts_when_all_of_them_exist(
    tmp_path: Path,
) -> None:
    store = Store()
    (tmp_path / "main.py").write_bytes(random.Random(1).randbytes(MOST_BYTES + 1))
    async with kubelets(tmp_path, store.routes) as (made, kubeconfig):
        made.job = None
        code = ("--code", str(tmp_path / "main.py"))
        result = await run(kubeconfig, *SHAPE, *code, "--", "x")
        job: Any = made.job
    assert result.exit_code == Exit.OK, result.output
    assert (store.suspended, job["spec"]["suspend"]) == (True, False)
    assert sorted(store.bodies) == ["test-code", "test-code-1"]


async def test_a_job_is_not_replaced_by_accident(tmp_path: Path) -> None:
    store = Store()
    async with kubelets(tmp_path, store.routes) as (made, kubeconfig):
        running(made)
        result = await run(kubeconfig, *SHAPE, "--", "x")
        assert made.job is not None
        assert made.job["metadata"]["uid"] == "old"
    assert result.exit_code == Exit.REFUSED
    assert "already exists in namespace default: replace it (--replace" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--replace",), id="no code"),
        pytest.param(("--code", "."), id="no replacement"),
        pytest.param(("--code", ".", "--replace", "--replicas", "3"), id="another size"),
        pytest.param(("--code", ".", "--replace", "--", "x"), id="another command"),
    ],
)
def test_an_image_and_a_command_are_required_for_any_other_change(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(group, ["run", "test", *words])
    assert (result.exit_code, "are required" in result.stderr) == (Exit.USAGE, True), result.stderr
