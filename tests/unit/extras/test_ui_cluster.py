"""The server of the page in the cluster with several users, against a simulated API server that
checks their permissions.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from cluster.waiting import until_true
from dijob_extras.ui import guard, hub
from dijob_extras.ui.cluster import sessions
from dijob_extras.ui.cluster.server import PageAccess, build_cluster_application
from dijob_extras.ui.cluster.sessions import UserSessions
from dijob_extras.ui.cluster.targets import ApiServer, connect_by_impersonation, connect_with_token
from dijob_extras.ui.cluster.users import (
    Headers,
    PageUser,
    ProxyTrust,
    find_proxy_user,
    find_token_user,
)
from kubernetes.aio.client.configuration import Configuration
from manifests import dijob

JOBS = "/apis/diengine.opendilab.org/v2alpha1"
SECRET = "the-secret-of-the-proxy"
Client = TestClient[Any, Any]
Body = dict[str, Any]


class Cluster:
    """An API server in which users may list the jobs of some namespaces ("": of all)."""

    def __init__(self) -> None:
        self.tokens = {"token-a": "alice", "token-b": "bob", "token-r": "root"}
        self.may: dict[str, set[str]] = {"alice": {"a"}, "bob": {"b"}, "root": {"", "a", "b"}}
        self.seen: list[tuple[str, str]] = []
        self.watches = 0

    async def serve(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        user = self.tokens.get(token, "")
        if token == "token-page":
            user = request.headers.get("Impersonate-User", "page")
            if user == "stranger":
                said = (
                    'users "stranger" is forbidden: User "page" cannot impersonate resource "users"'
                )
                return web.json_response({"message": said}, status=403)
        if not user:
            return web.json_response({"message": "Unauthorized"}, status=401)
        self.seen.append((user, request.path))
        kind, namespace = request.path.split("/")[-1], self._namespace(request.path)
        if kind == "selfsubjectreviews":
            return web.json_response({"status": {"userInfo": {"username": user}}}, status=201)
        if kind == "selfsubjectaccessreviews":
            asked = (await request.json())["spec"]["resourceAttributes"]
            allowed = self._may(user, asked["namespace"])
            return web.json_response({"status": {"allowed": allowed}}, status=201)
        if kind != "dijobs":
            return web.json_response({})
        if not self._may(user, namespace):
            said = f'dijobs is forbidden: User "{user}" cannot list resource "dijobs"'
            return web.json_response({"message": said, "reason": "Forbidden"}, status=403)
        if request.query.get("watch"):
            return await self._watch(request)
        spaces = [namespace] if namespace else ["a", "b"]
        items = [self._job(one) for one in spaces]
        return web.json_response({"items": items, "metadata": {"resourceVersion": "1"}})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.watches += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.watches -= 1
        return response

    def _may(self, user: str, namespace: str) -> bool:
        return bool({"", namespace} & self.may.get(user, set()))

    def _namespace(self, path: str) -> str:
        _, _, rest = path.partition("/namespaces/")
        return rest.partition("/")[0]

    def _job(self, namespace: str) -> Body:
        body = dijob(f"job-{namespace}", {"image": "x"}, replicas=1)
        body["metadata"] |= {"namespace": namespace, "uid": namespace, "resourceVersion": "1"}
        return body


@pytest.fixture
async def cluster() -> AsyncGenerator[tuple[Cluster, str]]:
    made = Cluster()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.serve)
    async with TestServer(app, handler_cancellation=True) as server:
        yield made, str(server.make_url("")).rstrip("/")


@asynccontextmanager
async def page(users: UserSessions, auth: str = "token") -> AsyncGenerator[Client]:
    def find_user(given: Headers) -> PageUser:
        return find_proxy_user(given, ProxyTrust(), SECRET)

    find = find_token_user if auth == "token" else find_user
    app = build_cluster_application(PageAccess(auth, find, ("page.example",), users))
    async with TestClient(TestServer(app, handler_cancellation=True)) as client:
        yield client


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_AGAIN_SECONDS", "_PULSE_SECONDS", "_BEAT_SECONDS", "_PACE_SECONDS"):
        monkeypatch.setattr(hub, name, 0.02)
    monkeypatch.setattr(hub, "_TOTALS_SECONDS", 0.02)
    monkeypatch.setattr(sessions, "_RIGHTS_SECONDS", 0.02)


@pytest.fixture
async def client(cluster: tuple[Cluster, str]) -> AsyncGenerator[Client]:
    users = UserSessions(connect_with_token(ApiServer(cluster[1], "")), most_users=2)
    async with page(users) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def first(answer: ClientResponse, event: str) -> Any:
    """Return the data of the first event of this kind."""
    async with asyncio.timeout(10):
        while line := await answer.content.readline():
            if line == f"event: {event}\n".encode():
                return json.loads((await answer.content.readline())[6:])
    raise AssertionError(f"the stream ended without {event}")


async def ends(answer: ClientResponse) -> None:
    async with asyncio.timeout(10):
        while await answer.content.readline():
            pass


async def eventually(what: str, true: Callable[[], bool]) -> None:
    await asyncio.to_thread(until_true, what, true, 10, lambda: "", 0.01)


@pytest.mark.parametrize(
    ("token", "path", "status", "jobs"),
    [
        pytest.param("token-a", "/api/jobs/a", 200, ["job-a"], id="their own namespace"),
        pytest.param("token-a", "/api/jobs/b", 403, [], id="another namespace"),
        pytest.param("token-a", "/api/jobs", 403, [], id="all namespaces"),
        pytest.param("token-a", "/api/totals", 403, [], id="the totals of all namespaces"),
        pytest.param("token-r", "/api/jobs", 200, ["job-a", "job-b"], id="an administrator"),
        pytest.param("token-x", "/api/jobs/a", 401, [], id="an unknown token"),
        pytest.param("", "/api/jobs/a", 401, [], id="no token"),
    ],
)
async def test_each_user_sees_what_their_token_may_list(
    client: Client, token: str, path: str, status: int, jobs: list[str]
) -> None:
    async with client.get(path, headers=bearer(token)) as answer:
        assert answer.status == status, await answer.text()
        assert {name: answer.headers[name] for name in guard.HEADERS} == guard.HEADERS
        if status == 200:
            shown = await first(answer, "jobs")
            assert [one["name"] for one in shown["jobs"]] == jobs
        if status == 403:
            assert 'User "alice" cannot list' in await answer.text()


async def test_an_administrator_sees_the_totals_of_all_namespaces(client: Client) -> None:
    async with client.get("/api/totals", headers=bearer("token-r")) as answer:
        assert (await first(answer, "about"))["everywhere"] is True
        shown = await first(answer, "totals")
        assert [row["namespace"] for row in shown["rows"]] == ["a", "b"]


async def test_the_page_knows_its_user_and_says_how_to_log_in(client: Client) -> None:
    async with client.get("/api/me", headers=bearer("token-a")) as answer:
        assert await answer.json() == {"name": "alice"}
    async with client.get("/api/me", headers=bearer("token-x")) as answer:
        assert (answer.status, await answer.text()) == (
            401,
            "the cluster does not accept the token",
        )
    async with client.get("/") as answer:
        assert '<body data-auth="token">' in await answer.text()
    async with client.get("/", headers={"Host": "evil.test"}) as answer:
        assert answer.status == 403


async def test_tabs_of_one_user_share_a_watch_which_ends_with_the_last_tab(
    client: Client, cluster: tuple[Cluster, str]
) -> None:
    made, _ = cluster
    tabs = [await client.get("/api/jobs", headers=bearer("token-r")) for _ in range(2)]
    for tab in tabs:
        await first(tab, "jobs")
    await eventually("one watch", lambda: made.watches == 1)
    other = await client.get("/api/jobs/b", headers=bearer("token-b"))
    await eventually("a watch of another user", lambda: made.watches == 2)
    tabs[0].close()
    other.close()
    await eventually("the watch of the other user has ended", lambda: made.watches == 1)
    tabs[1].close()
    await eventually("no watches", lambda: made.watches == 0)


async def test_the_number_of_users_and_of_their_streams_is_limited(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_STREAMS", 2)
    opened = [await client.get("/api/jobs/a", headers=bearer("token-a")) for _ in range(2)]
    async with client.get("/api/jobs/a", headers=bearer("token-a")) as answer:
        assert answer.status == 429
    opened.append(await client.get("/api/jobs/b", headers=bearer("token-b")))
    async with client.get("/api/jobs", headers=bearer("token-r")) as answer:
        assert (answer.status, "too many users" in await answer.text()) == (503, True)
    for one in opened:
        one.close()


@pytest.mark.parametrize("what", ["a permission is withdrawn", "the token has expired"])
async def test_a_stream_ends_when(client: Client, cluster: tuple[Cluster, str], what: str) -> None:
    made, _ = cluster
    answer = await client.get("/api/jobs/a", headers=bearer("token-a"))
    await first(answer, "jobs")
    await eventually("the permissions were read", lambda: len(made.seen) > 6)
    if what == "the token has expired":
        del made.tokens["token-a"]
    else:
        made.may["alice"] = set()
    await ends(answer)
    async with client.get("/api/jobs/a", headers=bearer("token-a")) as again:
        assert again.status == (401 if "token" in what else 403)


async def test_a_proxys_user_is_impersonated_in_every_request(
    cluster: tuple[Cluster, str],
) -> None:
    made, host = cluster
    settings = Configuration()
    settings.host = host
    settings.api_key["BearerToken"] = "Bearer token-page"
    users = UserSessions(connect_by_impersonation(settings), most_users=2)
    proxy = {"X-Dijob-Proxy-Secret": SECRET, "X-Forwarded-User": "alice"}
    async with page(users, "proxy") as client:
        async with client.get("/api/jobs/a", headers=proxy) as answer:
            shown = await first(answer, "jobs")
            assert [one["name"] for one in shown["jobs"]] == ["job-a"]
        async with client.get("/api/jobs/b", headers=proxy) as answer:
            assert (answer.status, "alice" in await answer.text()) == (403, True)
        stranger = {**proxy, "X-Forwarded-User": "stranger"}
        async with client.get("/api/me", headers=stranger) as answer:
            assert (answer.status, "cannot impersonate" in await answer.text()) == (403, True)
        async with client.get("/api/jobs/a", headers={"X-Forwarded-User": "alice"}) as answer:
            assert answer.status == 401
        async with client.get("/") as answer:
            assert '<body data-auth="proxy">' in await answer.text()
    # No request had the permissions of the page itself.
    assert {user for user, _ in made.seen} == {"alice"}


async def test_all_streams_end_when_the_server_stops(cluster: tuple[Cluster, str]) -> None:
    users = UserSessions(connect_with_token(ApiServer(cluster[1], "")), most_users=2)
    async with page(users) as client:
        answer = await client.get("/api/jobs/a", headers=bearer("token-a"))
        await first(answer, "jobs")
        users.end_streams()
        await ends(answer)
