"""The HTTP API of the history: no response without the permissions of the user who asks."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer
from dijob.api.recorded import JobRecord, LogTail
from dijob.history.app import HistoryApi
from dijob.history.sqlite import SqliteStore
from dijob.history.store import Change, StoreError
from dijob.kube.api import Api
from dijob.names import HISTORY_TOKEN_HEADER
from dijob.server.callers import Callers
from fakes.reviewer import Reviewer


@dataclass
class Lab:
    """A history with two records, and a client for it."""

    reviewer: Reviewer
    store: SqliteStore
    client: TestClient[Any, Any]

    async def ask(self, path: str, token: str = "ada", header: str = HISTORY_TOKEN_HEADER) -> Any:
        """Return status and body of a response."""
        headers = {header: token} if token else {}
        async with self.client.get(f"/v1/jobs{path}", headers=headers) as answer:
            return answer.status, await answer.json()


def record(namespace: str, name: str) -> JobRecord:
    return JobRecord(
        uid=f"{namespace}-{name}",
        namespace=namespace,
        name=name,
        created="2026-11-27T10:00:00Z",
        ended="2026-11-27T11:00:00Z",
        phase="Failed",
        spec={"replicas": 2},
    )


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    store, reviewer = SqliteStore(tmp_path / "history.db", 2**20), Reviewer()
    logs = tuple((LogTail(rank=n, text=f"log of {n}"), f"p{n}/0") for n in range(2))
    store.put([Change(record("a", "one"), logs), Change(record("b", "two"))])
    app = HistoryApi(Callers(cast(Api, reviewer)), store).app()
    async with TestClient(TestServer(app)) as client:
        yield Lab(reviewer, store, client)
    store.close()


ANSWERS: dict[str, tuple[str, str, int]] = {
    "no token": ("", "", 401),
    "an unknown token": ("", "mallory", 401),
    "own namespace": ("?namespace=a", "ada", 200),
    "another namespace": ("?namespace=b", "ada", 403),
    "all namespaces without the right": ("", "ada", 403),
    "all namespaces": ("", "root", 200),
    "no right": ("?namespace=a", "eve", 403),
    "a job": ("/a/one", "ada", 200),
    "a job, without the right": ("/a/one", "eve", 403),
    "a job that does not exist, without the right": ("/a/none", "eve", 403),
    "a job that does not exist": ("/a/none", "ada", 404),
    "a job of another namespace by its uid": ("/a/one?uid=b-two", "ada", 404),
    "logs": ("/a/one/logs", "ada", 200),
    "logs, with a right to the job only": ("/a/one/logs", "bob", 403),
    "logs, with a right to logs only": ("/b/two/logs", "eve", 403),
    "another namespace in a name": ("/a/..%2fb%2ftwo", "ada", 404),
    "no such path": ("/a/one/secrets", "ada", 404),
}


@pytest.mark.parametrize(("path", "token", "status"), ANSWERS.values(), ids=ANSWERS)
async def test_a_response_needs_the_rights(lab: Lab, path: str, token: str, status: int) -> None:
    found, answer = await lab.ask(path, token)
    assert found == status, answer
    if status != 200:
        assert (answer["kind"], answer["code"]) == ("Status", status)
        assert "replicas" not in str(answer)


@pytest.mark.parametrize("path", ["", "/a/one", "/a/one/logs"])
async def test_only_get_is_allowed(lab: Lab, path: str) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "HEAD"):
        headers = {HISTORY_TOKEN_HEADER: "root"}
        async with lab.client.request(method, f"/v1/jobs{path}", headers=headers) as answer:
            assert answer.status == 405, method


async def test_a_list_is_brief_and_a_job_is_complete(lab: Lab) -> None:
    _, listed = await lab.ask("?namespace=a")
    assert [(one["name"], "spec" in one) for one in listed["items"]] == [("one", False)]
    _, one = await lab.ask("/a/one")
    assert (one["spec"], [log["rank"] for log in one["logs"]]) == ({"replicas": 2}, [0, 1])
    assert "log of" not in str(one)


async def test_all_logs_or_those_of_a_rank(lab: Lab) -> None:
    _, both = await lab.ask("/a/one/logs")
    assert [log["text"] for log in both["items"]] == ["log of 0", "log of 1"]
    _, single = await lab.ask("/a/one/logs?rank=1")
    assert [log["text"] for log in single["items"]] == ["log of 1"]


async def test_a_review_names_the_object(lab: Lab) -> None:
    """Roles can be restricted to objects by name."""
    await lab.ask("/a/one/logs")
    first, second = lab.reviewer.asked
    assert (first["verb"], first["namespace"], first["name"]) == ("get", "a", "one")
    assert (second["resource"], second["subresource"]) == ("pods", "log")


async def test_permissions_are_checked_for_each_request(lab: Lab) -> None:
    assert (await lab.ask("/a/one"))[0] == 200
    lab.reviewer.rights["ada"] = set()
    assert (await lab.ask("/a/one"))[0] == 403


async def test_the_usual_header_is_accepted_as_well(lab: Lab) -> None:
    """A client that connects directly need not know the header for the API server's proxy."""
    assert (await lab.ask("/a/one", "Bearer ada", "Authorization"))[0] == 200


INVALID = {
    "a namespace": "?namespace=A/B",
    "a time": "?namespace=a&since=yesterday",
    "a limit": "?namespace=a&limit=0",
    "a large limit": "?namespace=a&limit=501",
    "labels": "?namespace=a&labels=team",
    "a uid": "/a/one?uid=%27",
    "a rank": "/a/one/logs?rank=x",
}


@pytest.mark.parametrize("path", INVALID.values(), ids=INVALID)
async def test_an_invalid_parameter_is_reported(lab: Lab, path: str) -> None:
    status, answer = await lab.ask(path)
    assert (status, answer["reason"]) == (400, "BadRequest"), answer


async def test_an_outage_is_reported(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(query: Any) -> Any:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(lab.store, "list", fail)
    status, answer = await lab.ask("?namespace=a")
    assert (status, "the store" in answer["message"]) == (503, True)
    lab.reviewer.down = True
    status, answer = await lab.ask("?namespace=a", "ada")
    assert (status, "the API server" in answer["message"]) == (503, True)
