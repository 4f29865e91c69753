"""`history`: the command with a real history behind the API server's proxy for Services."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner, Result
from dijob.api.recorded import CurvePoint, JobRecord, LogTail, PhaseChange
from dijob.api.status import FirstFailure, Goodput
from dijob.cli.errors import Exit
from dijob.cli.history.show import draw_curve
from dijob.cli.main import group
from dijob.client.errors import BadName
from dijob.client.history import HistoryPlace
from dijob.history.app import HistoryApi
from dijob.history.sqlite import SqliteStore
from dijob.history.store import Change
from dijob.kube.api import Api
from dijob.names import Activity
from dijob.server.callers import Callers
from fakes.reviewer import Reviewer
from unit.client.kubelets import Kubelets, kubelets

SYSTEM = "/api/v1/namespaces/dijob-system"
ADMIN = {("list", "dijobs", ""), ("get", "dijobs", ""), ("get", "pods/log", "")}


def record(name: str, **fields: Any) -> JobRecord:
    given = {
        "uid": f"uid-{name}",
        "namespace": "default",
        "name": name,
        "created": "2026-11-27T10:00:00Z",
        "ended": "2026-11-27T10:30:00Z",
        "deleted": "2026-11-27T11:00:00Z",
        "phase": "Failed",
        "replicas": 2,
        **fields,
    }
    return JobRecord.model_validate(given)


FAILED = record(
    "broken",
    reason="BackoffLimitExceeded",
    message="rank 1 failed too often",
    labels={"team": "blue"},
    owner="ada",
    spec={"replicas": 2},
    first_failure=FirstFailure(rank=1, exit_code=3, pod="broken-1", message="KeyError: 'x'"),
    goodput=Goodput(since="2026-11-27T10:00:00Z", activity=Activity.ENDED, running_seconds=900,
                    starting_seconds=900),
    phases=(PhaseChange(phase="Running", time="2026-11-27T10:15:00Z"),),
    curve=tuple(CurvePoint(time=f"{n}", episode_return=float(n)) for n in range(8)),
)  # fmt: skip
LOGS = (
    LogTail(rank=0, pod="broken-0", exit_code=0, text="fine\n"),
    LogTail(rank=1, pod="broken-1", exit_code=3, failed=True, cut=True, text="KeyError: 'x'\n"),
)
CHANGES = (
    Change(FAILED, tuple((log, f"p{log.rank}/0") for log in LOGS)),
    Change(record("good", phase="Succeeded", progress="iter 10")),
    Change(record("other", namespace="elsewhere", ended="", phase="Running")),
)


@dataclass
class Proxy:
    """The API server's proxy for the Service of a history, and its TokenRequest."""

    backend: TestClient[Any, Any]
    absent: bool = False
    created: list[str] = field(default_factory=list)

    def routes(self, made: Kubelets) -> list[web.RouteDef]:
        service = f"{SYSTEM}/services/dijob-history:http/proxy"
        account = f"{SYSTEM}/serviceaccounts/dijob-history/token"
        return [web.get(service + "/{path:.*}", self.forward), web.post(account, self.create)]

    async def forward(self, request: web.Request) -> web.Response:
        if self.absent:
            return _missing('endpoints "dijob-history" not found')
        # Like the API server, remove the user's credentials.
        headers = {key: value for key, value in request.headers.items() if key != "Authorization"}
        path = f"/{request.match_info['path']}?{request.query_string}"
        async with self.backend.get(path, headers=headers) as answer:
            return web.json_response(await answer.json(), status=answer.status)

    async def create(self, request: web.Request) -> web.Response:
        if self.absent:
            return _missing('serviceaccounts "dijob-history" not found')
        self.created.append(request.path)
        return web.json_response({"status": {"token": "reader"}})


def _missing(message: str) -> web.Response:
    status = {"kind": "Status", "reason": "NotFound", "message": message, "code": 404}
    return web.json_response(status, status=404)


@asynccontextmanager
async def cluster(tmp_path: Path, **user: Any) -> AsyncIterator[tuple[Proxy, str]]:
    """Yield the proxy of a history with three records, and a kubeconfig of this user."""
    store = SqliteStore(tmp_path / "history.db", 2**20)
    store.put(CHANGES)
    reviewer = Reviewer({"admin": ADMIN, "reader": ADMIN, "eve": set()})
    app = HistoryApi(Callers(cast(Api, reviewer)), store).app()
    async with TestClient(TestServer(app)) as backend:
        proxy = Proxy(backend)
        async with kubelets(tmp_path, proxy.routes) as (_, kubeconfig):
            config = yaml.safe_load(Path(kubeconfig).read_text())  # noqa: ASYNC240
            config["users"][0]["user"] = user
            (tmp_path / "own").write_text(yaml.safe_dump(config))
            yield proxy, str(tmp_path / "own")
    store.close()


async def run(kubeconfig: str, *words: str) -> Result:
    arguments = ["history", *words, "--kubeconfig", kubeconfig]
    return await asyncio.to_thread(CliRunner().invoke, group, arguments)


SHOWN: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "a namespace": ((), ("broken", "good", "Succeeded", "30m", "iter 10"), ("other", "NAMESPACE")),
    "all namespaces": (("-A",), ("NAMESPACE", "elsewhere", "Deleted", "good"), ()),
    "wide": (("-o", "wide"), ("OWNER", "ada", "uid-broken"), ()),
    "a phase": (("--phase", "failed"), ("broken",), ("good",)),
    "labels": (("-l", "team=blue"), ("broken",), ("good",)),
    "an owner": (("--owner", "ada"), ("broken",), ("good",)),
    "a limit": (("--limit", "1"), ("broken",), ("good",)),
    "the distant past": (("--since", "100000d"), ("broken", "good"), ()),
    "none": (("-n", "none"), ("The history has no such jobs",), ("NAME",)),
    "a job": (
        ("broken",),
        ("Failed (BackoffLimitExceeded)", "exit code 3", "0 ▁▂▃▄▅▆▇█ 7", "50 %: 50 % starting",
         "Running 2026-11-27T10:15:00Z", "rank 1 (failed, exit code 3, only its end)"),
        (),
    ),
    "all logs": (("broken", "--logs"), ("==> rank 0, pod broken-0 <==", "KeyError"), ()),
    "a log": (("broken", "--logs", "--rank", "0"), ("fine",), ("==>", "KeyError")),
}  # fmt: skip


@pytest.mark.parametrize(("words", "shown", "hidden"), SHOWN.values(), ids=SHOWN)
async def test_the_command_shows_records(
    tmp_path: Path, words: tuple[str, ...], shown: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    async with cluster(tmp_path, token="admin") as (proxy, kubeconfig):
        result = await run(kubeconfig, *words)
    assert result.exit_code == 0, result.output
    assert [word for word in shown if word not in result.output] == []
    assert [word for word in hidden if word in result.output] == []
    assert proxy.created == []


async def test_records_as_data(tmp_path: Path) -> None:
    async with cluster(tmp_path, token="admin") as (_, kubeconfig):
        listed = json.loads((await run(kubeconfig, "-o", "json")).stdout)
        one = yaml.safe_load((await run(kubeconfig, "broken", "-o", "yaml")).stdout)
        manifest = yaml.safe_load((await run(kubeconfig, "broken", "-o", "manifest")).stdout)
    assert [each["name"] for each in listed["items"]] == ["broken", "good"]
    assert (one["outcome"], one["firstFailure"]["exitCode"]) == ("Failed", 3)
    assert [log["rank"] for log in one["logs"]] == [0, 1]
    assert manifest["metadata"] == {
        "name": "broken", "namespace": "default", "labels": {"team": "blue"},
    }  # fmt: skip
    assert (manifest["kind"], manifest["spec"]) == ("DIJob", {"replicas": 2})


ERRORS: dict[str, tuple[tuple[str, ...], Exit, str]] = {
    "no such job": (("none",), Exit.NOT_FOUND, "the history has no job none in namespace default"),
    "no log": (("good", "--logs"), Exit.NOT_FOUND, "no log of good"),
    "no log of a rank": (("broken", "--logs", "--rank", "7"), Exit.NOT_FOUND, "no log of rank 7"),
    "logs of no job": (("--logs",), Exit.USAGE, "need the name of a job"),
    "a rank without logs": (("broken", "--rank", "1"), Exit.USAGE, "--rank needs --logs"),
    "a name in all namespaces": (("broken", "-A"), Exit.USAGE, "use -n"),
    "a selector that is none": (("-l", "team"), Exit.REFUSED, "KEY=VALUE"),
    "no Service": (("--service", "x"), Exit.USAGE, "NAMESPACE/NAME"),
}


@pytest.mark.parametrize(("words", "code", "message"), ERRORS.values(), ids=ERRORS)
async def test_errors_say_what_to_do(
    tmp_path: Path, words: tuple[str, ...], code: Exit, message: str
) -> None:
    async with cluster(tmp_path, token="admin") as (_, kubeconfig):
        result = await run(kubeconfig, *words)
    assert (result.exit_code, message in result.output) == (code, True), result.output


async def test_a_user_without_permissions_sees_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, token="eve") as (_, kubeconfig):
        for words in ((), ("-A",), ("broken",), ("broken", "--logs")):
            result = await run(kubeconfig, *words)
            assert (result.exit_code, result.stdout) == (Exit.REFUSED, ""), words
            assert "eve cannot" in result.output


WITHOUT_TOKEN: dict[str, dict[str, Any]] = {
    "another credential": {"username": "ada", "password": "x"},
    "impersonation": {"token": "admin", "as": "eve"},
}


@pytest.mark.parametrize("user", WITHOUT_TOKEN.values(), ids=WITHOUT_TOKEN)
async def test_a_user_without_a_token_gets_one_of_the_history(
    tmp_path: Path, user: dict[str, Any]
) -> None:
    """The API server decides whether this user may. The token of a user who impersonates another
    one is not used, because it has other permissions.
    """
    async with cluster(tmp_path, **user) as (proxy, kubeconfig):
        result = await run(kubeconfig)
    assert (result.exit_code, "broken" in result.output) == (0, True), result.output
    assert proxy.created == [f"{SYSTEM}/serviceaccounts/dijob-history/token"]


@pytest.mark.parametrize("user", [{"token": "admin"}, {"username": "a", "password": "b"}], ids=str)
async def test_a_cluster_without_a_history(tmp_path: Path, user: dict[str, Any]) -> None:
    async with cluster(tmp_path, **user) as (proxy, kubeconfig):
        proxy.absent = True
        result = await run(kubeconfig)
    assert (result.exit_code, "history.enabled" in result.output) == (Exit.NOT_FOUND, True)


def test_the_place_of_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(HistoryPlace.parse()) == "dijob-system/dijob-history"
    monkeypatch.setenv("DIJOB_HISTORY", "a/b")
    assert [str(HistoryPlace.parse(given)) for given in ("", "c/d")] == ["a/b", "c/d"]
    for given in ("x", "/x", "x/", "a/b/c"):
        with pytest.raises(BadName):
            HistoryPlace.parse(given)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([1.0], ""), ([1.0, 1.0], "1 ▁▁ 1"), ([0.0, -1.0], "0 █▁ -1")],
    ids=["none", "one", "constant", "falling"],
)
def test_a_curve_is_a_line_of_blocks(values: list[float], drawn: str) -> None:
    curve = [CurvePoint(time="t", episode_return=value) for value in values]
    assert draw_curve(curve) == drawn
