"""Commands that would have no effect fail with a message: apply and scale of a job that has ended,
apply of a job whose pods are invalid, and logs of a job without logs.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result
from dijob.cli.errors import Exit
from dijob.cli.main import group
from unit.client.kubelets import JOBS, Kubelets, kubelets

Body = dict[str, Any]


class Stored:
    """Answers writes with the stored job, and notes their paths."""

    def __init__(self, rejects: str = "") -> None:
        self.paths = list[str]()
        self.rejects = rejects

    def routes(self, made: Kubelets) -> list[web.RouteDef]:
        async def patch(request: web.Request) -> web.Response:
            self.paths.append(request.path.removeprefix(JOBS))
            return web.json_response(made.job)

        async def reject(_: web.Request) -> web.Response:
            answer = {"message": self.rejects, "reason": "BadRequest"}
            return web.json_response(answer, status=400 if self.rejects else 403)

        return [
            web.patch(f"{JOBS}/test", patch),
            web.patch(f"{JOBS}/test/scale", patch),
            web.post("/api/v1/namespaces/{space}/pods", reject),
        ]


async def run(kubeconfig: str, *words: str, stdin: str = "") -> Result:
    arguments = [*words, "--kubeconfig", kubeconfig]
    return await asyncio.to_thread(CliRunner().invoke, group, arguments, input=stdin)


async def written(
    tmp_path: Path, phase: str, *words: str, rejects: str = ""
) -> tuple[Result, list[str]]:
    """Run a command on a job in this phase. Return its result and the paths of its writes.

    `rejects` is the API server's reason to reject the dry run of a pod as invalid.
    """
    stored = Stored(rejects)
    async with kubelets(tmp_path, stored.routes) as (made, kubeconfig):
        assert made.job is not None
        container = made.job["spec"]["template"]["spec"]["containers"][0]
        container["command"] = ["x"]
        if rejects:
            container["resources"] = {"limits": {"memory": "1Gb", "cpu": "1"}}
        text = yaml.safe_dump(made.job)
        if phase == "Succeeded":
            await made.finish()
        return await run(kubeconfig, *words, stdin=text), stored.paths


@pytest.mark.parametrize("wait", [(), ("--wait",)], ids=["apply", "apply --wait"])
async def test_apply_of_an_ended_job_fails(tmp_path: Path, wait: tuple[str, ...]) -> None:
    done, paths = await written(tmp_path, "Succeeded", "apply", "-f", "-", *wait)
    assert (done.exit_code, paths[0]) == (Exit.FAILED, "/test")
    assert "dijob/test has ended (Succeeded) and will not start again" in done.stderr
    assert "kubectl dijob restart test -f FILE" in done.stderr


async def test_apply_of_a_job_that_has_not_ended_succeeds(tmp_path: Path) -> None:
    done, _ = await written(tmp_path, "", "apply", "-f", "-")
    assert (done.exit_code, done.stdout) == (0, "dijob/test applied\n"), done.output


@pytest.mark.parametrize(
    ("rejects", "words"),
    [
        ('unknown field "spec.containers[0].comand"', "comand: did you mean command?"),
        (
            "quantities must match the regular expression",
            "spec.containers[0].resources.limits.memory: 1Gb is not a quantity: write 1G or 1Gi",
        ),
    ],
    ids=["an unknown field", "an invalid quantity"],
)
async def test_apply_of_a_job_with_invalid_pods_writes_nothing(
    tmp_path: Path, rejects: str, words: str
) -> None:
    done, paths = await written(tmp_path, "", "apply", "-f", "-", rejects=rejects)
    assert (done.exit_code, paths) == (Exit.REFUSED, []), done.output
    assert "Error: nothing was applied: the cluster rejects a pod like test-0" in done.stderr
    assert words in done.stderr
    # The containers that the operator adds have the same quantities.
    assert "initContainers" not in done.stderr


async def test_scale_of_an_ended_job_fails_and_writes_nothing(tmp_path: Path) -> None:
    done, paths = await written(tmp_path, "Succeeded", "scale", "test", "--replicas", "3")
    assert (done.exit_code, paths) == (Exit.FAILED, [])
    assert "dijob/test has ended (Succeeded), so its size has no effect" in done.stderr


async def test_scale_does_not_need_permission_to_read_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: object) -> web.Response:
        return web.json_response({"message": "no", "reason": "Forbidden"}, status=403)

    monkeypatch.setattr(Kubelets, "one", forbidden)
    done, paths = await written(tmp_path, "", "scale", "test", "--replicas", "3")
    assert (done.exit_code, paths) == (0, ["/test/scale"]), done.output


@pytest.mark.parametrize(
    ("phase", "code", "words"),
    [
        ("Pending", Exit.FAILED, "no rank has a log yet: add --follow"),
        ("Succeeded", Exit.NOT_FOUND, "its pods have been deleted, and their logs with them"),
    ],
)
async def test_logs_of_a_job_without_logs_fail(
    tmp_path: Path, phase: str, code: Exit, words: str
) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig):
        if phase == "Succeeded":
            await made.finish()
        done = await run(kubeconfig, "logs", "test")
    assert (done.exit_code, done.stdout) == (code, "")
    assert f"job test is {phase}: " in done.stderr
    assert words in done.stderr


async def test_a_rank_that_has_printed_nothing_has_an_empty_log(tmp_path: Path) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig):
        await made.start(0)
        made.logs["test-0"][-1].ended = True
        done = await run(kubeconfig, "logs", "test")
    assert (done.exit_code, done.output) == (0, "")
