"""The HTTP server: who is let in, what is changed, and what is said to whom it refuses."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer
from dijob import names
from dijob.core.render.server import AUDIENCE
from dijob.server.app import BODY_BYTES, Server
from dijob.server.callers import ACCESS, REVIEWS, Callers, JobName
from dijob.server.limits import Limit, Rate
from dijob.server.metrics import REGISTRY, SILENT_SECONDS
from dijob.server.openapi import OPENAPI_PATH, ROUTES, document
from dijob.server.reports import PROGRESS_SECONDS, Manner, Reports
from dijob.server.requests import ProgressRequest
from dijob.server.sizes import Sizes
from dijob.shell.api import Api, ApiError
from dijob.shell.clock import Clock
from dijob.shell.connection import Call
from dijob.shell.kinds import JOBS, PODS
from unit.builders import NOW
from yarl import URL

Body = dict[str, Any]

UID = "5d571f46-ffb7-46dc-92d2-29d6768afe1a"
OTHER = "5d571f46-ffb7-46dc-92d2-000000000000"
JOB, POD = JOBS.path("ns", "job"), PODS.path("ns", "job-0")
BY_UID, BY_NAME = f"/v2alpha1/{UID}/replicas", "/v2alpha1/ns.job/replicas"


@dataclass
class Apiserver:
    """The objects by path, and the users of tokens: a pod's for AUDIENCE, people's for it
    itself.
    """

    objects: dict[str, Body] = field(default_factory=dict)
    pods: dict[str, Body] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    conflicts: int = 0
    down: bool = False

    async def get(self, path: str, **query: str) -> Body:
        return await self.call(Call("GET", path, query=query))

    async def call(self, call: Call) -> Body:
        self.calls.append(call)
        if self.down:
            raise ApiError(0, "ClientConnectionError", "connection refused")
        if call.path == REVIEWS:
            return self._review(call.body or {})
        if call.path == ACCESS:
            return self._access(call.body or {})
        if call.method == "PATCH":
            return self._patch(call)
        if call.path == PODS.path("ns"):
            return {"items": [each for path, each in self.objects.items() if "/pods/" in path]}
        if call.path not in self.objects:
            raise ApiError(404, "NotFound", "there is none")
        return self.objects[call.path]

    def _review(self, body: Any) -> Body:
        spec = body["spec"]
        if spec.get("audiences") == [AUDIENCE] and spec["token"] in self.pods:
            user = self.pods[spec["token"]]
            return {"status": {"authenticated": True, "audiences": [AUDIENCE], "user": user}}
        if not spec.get("audiences") and spec["token"] in self.people:
            user = {"username": self.people[spec["token"]], "groups": ["g"]}
            return {"status": {"authenticated": True, "user": user}}
        return {"status": {"authenticated": False, "error": "no"}}

    def _access(self, body: Any) -> Body:
        spec, wanted = body["spec"], body["spec"]["resourceAttributes"]
        assert (wanted["group"], wanted["resource"]) == (names.GROUP, "dijobs")
        assert wanted["subresource"] == "scale"
        asked = (spec["user"], wanted["verb"], f"{wanted['namespace']}/{wanted['name']}")
        return {"status": {"allowed": asked in self.allowed}}

    def _patch(self, call: Call) -> Body:
        path, _, sub = call.path.rpartition("/")
        body, patch = self.objects[path], cast(Body, call.body)
        assert call.query == {"fieldManager": "dijob-server"}
        if self.conflicts or patch["metadata"]["resourceVersion"] != body["metadata"][VERSION]:
            self.conflicts -= 1
            raise ApiError(409, "Conflict", "it has changed")
        part = "spec" if sub == "scale" else "status"
        changed = {**body.get(part, {}), **patch[part]}
        meta = {**body["metadata"], VERSION: str(int(body["metadata"][VERSION]) + 1)}
        self.objects[path] = {**body, part: changed, "metadata": meta}
        return {}

    @property
    def job(self) -> Body:
        return self.objects[JOB]


VERSION = "resourceVersion"


def token_of(pod: str, uid: str, account: str = "system:serviceaccount:ns:default") -> Body:
    extra = {
        "authentication.kubernetes.io/pod-name": [pod],
        "authentication.kubernetes.io/pod-uid": [uid],
    }
    return {"username": account, "extra": extra}


def pod(rank: int, owner: str = UID) -> Body:
    owners = [
        {
            "apiVersion": names.API_VERSION,
            "kind": "DIJob",
            "name": "job",
            "uid": owner,
            "controller": True,
        }
    ]
    labels = {names.LABEL_JOB: "job", names.LABEL_RANK: str(rank)}
    meta = {"name": f"job-{rank}", "uid": f"pod-{rank}", "labels": labels}
    ports = [{"name": "di-port", "containerPort": 50515}]
    return {
        "metadata": {**meta, "ownerReferences": owners},
        "spec": {"containers": [{"name": "di-container", "ports": ports}]},
        "status": {"podIP": f"10.0.0.{rank}"},
    }


def made(**spec: Any) -> Apiserver:
    """A job of three in namespace ns, with the tokens "rank" of its pod and "bob"."""
    job = {
        "metadata": {"namespace": "ns", "name": "job", "uid": UID, VERSION: "1"},
        "spec": {"replicas": 3, "minReplicas": 1, "maxReplicas": 5, **spec},
        "status": {"phase": "Running"},
    }
    server = Apiserver({JOB: job, **{PODS.path("ns", f"job-{n}"): pod(n) for n in range(3)}})
    server.pods = {"rank": token_of("job-0", "pod-0")}
    server.people = {"bob": "bob", "eve": "eve"}
    server.allowed = {("bob", "get", "ns/job"), ("bob", "update", "ns/job")}
    return server


class Standing(Clock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)


@dataclass
class Lab:
    """The server over a simulated apiserver, and a client of it."""

    apiserver: Apiserver
    server: Server
    client: TestClient[Any, Any]
    clock: Standing

    async def ask(
        self, method: str, path: str, body: Any = None, token: str = "rank"
    ) -> tuple[int, Body]:
        """Status and answer, which has always the same form."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        async with self.client.request(method, path, data=data, headers=headers) as answer:
            told = await answer.json()
            assert set(told) == {"success", "code", "message", "data"}
            assert (told["success"], told["code"]) == (answer.status == 200, answer.status != 200)
            assert ("Retry-After" in answer.headers) == (
                answer.status in (429, 503, 409) and "ended" not in told["message"]
            )
            return answer.status, told


@asynccontextmanager
async def lab(apiserver: Apiserver | None = None) -> AsyncIterator[Lab]:
    apiserver, clock = apiserver or made(), Standing()
    api = cast(Api, apiserver)
    sizes = Sizes(api)
    server = Server(Callers(api, clock), sizes, Reports(api, sizes, clock=clock), clock)
    async with TestClient(TestServer(server.app())) as client:
        yield Lab(apiserver, server, client, clock)


@pytest.mark.parametrize("path", [BY_UID, BY_NAME, f"/v2alpha1/job/{UID}/replicas"])
async def test_a_rank_sees_and_changes_the_size_of_its_job(path: str) -> None:
    async with lab() as it:
        _, told = await it.ask("GET", path)
        assert told["data"] == ["10.0.0.0:50515", "10.0.0.1:50515", "10.0.0.2:50515"]
        for method, replicas, size in (("POST", 2, 5), ("DELETE", 3, 2), ("PUT", 4, 4)):
            status, told = await it.ask(method, path, {"replicas": replicas})
            assert (status, told["data"]) == (200, {"replicas": size})
            assert it.apiserver.job["spec"]["replicas"] == size


async def test_no_route_is_without_authentication() -> None:
    """All that the application serves, but the description."""
    async with lab() as it:
        served = {
            (route.method, route.resource.canonical)
            for route in it.server.app().router.routes()
            if route.resource is not None
        }
        assert served == {
            ("GET", OPENAPI_PATH),
            *((route.method, path) for route in ROUTES for path in route.paths),
        }
        for method, path in served - {("GET", OPENAPI_PATH)}:
            for token in ("", "nothing", "null"):
                status, told = await it.ask(method, path.format(job=UID), {"replicas": 1}, token)
                assert status == 401, (method, path, told)
        assert it.apiserver.job == made().job


REFUSED = {
    "another job's token": ("GET", f"/v2alpha1/{OTHER}/replicas", None, 403, "its own job, ns.job"),
    "another job by name": ("GET", "/v2alpha1/ns.other/replicas", None, 403, "and no other"),
    "another namespace": ("GET", "/v2alpha1/other.job/replicas", None, 403, "and no other"),
    "a bare name": ("GET", "/v2alpha1/job/replicas", None, 404, "NAMESPACE.NAME"),
    "no such path": ("GET", "/v1/jobs", None, 404, OPENAPI_PATH),
    "no such method": ("PATCH", BY_UID, None, 405, "only DELETE,GET,POST,PUT"),
    "no JSON": ("POST", BY_UID, b"{", 400, "JSON"),
    "no number": ("POST", BY_UID, {"replicas": "2"}, 422, "replicas"),
    "none": ("POST", BY_UID, {"replicas": 0}, 422, "replicas"),
    "a field more": ("POST", BY_UID, {"replicas": 1, "x": 1}, 422, "x"),
    "nothing": ("POST", BY_UID, {}, 422, "replicas"),
    "a list": ("POST", BY_UID, [1], 422, "the body"),
    "above the maximum": ("POST", BY_UID, {"replicas": 3}, 422, "allow 1 to 5"),
    "below the minimum": ("DELETE", BY_UID, {"replicas": 3}, 422, "allow 1 to 5"),
    "too large": ("POST", BY_UID, b" " * (BODY_BYTES + 1), 413, "at most 65536 bytes"),
    "a large profiling": (
        "POST", f"/v2alpha1/{UID}/profilings", {"a": "x" * 5000}, 413, "at most 4096 bytes",
    ),
    "no progress": ("POST", f"/v2alpha1/{UID}/progress", {}, 422, "must be there"),
    "infinite": ("POST", f"/v2alpha1/{UID}/progress", b'{"episode_return": 1e999}', 422, "finite"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"), REFUSED.values(), ids=list(REFUSED)
)
async def test_what_is_refused_says_why(
    method: str, path: str, body: Any, status: int, words: str
) -> None:
    async with lab() as it:
        found, told = await it.ask(method, path, body)
        assert (found, words in told["message"]) == (status, True), told
        assert it.apiserver.job == made().job


NOBODY = {
    "a pod that is gone": (token_of("job-9", "pod-9"), 401, "is gone"),
    "its name is another pod's": (token_of("job-0", "pod-7"), 401, "is gone"),
    "bound to no pod": ({"username": "system:serviceaccount:ns:default"}, 401, "bound to a pod"),
    "no service account": (token_of("job-0", "pod-0", "bob"), 401, "bound to a pod"),
}


@pytest.mark.parametrize(("user", "status", "words"), NOBODY.values(), ids=list(NOBODY))
async def test_a_token_that_leads_to_no_rank_opens_nothing(
    user: Body, status: int, words: str
) -> None:
    apiserver = made()
    apiserver.pods["odd"] = user
    async with lab(apiserver) as it:
        found, told = await it.ask("GET", BY_UID, token="odd")
        assert (found, words in told["message"]) == (status, True), told


async def test_a_pod_that_is_nobodys_rank_opens_nothing() -> None:
    apiserver = made()
    apiserver.objects[POD]["metadata"]["ownerReferences"] = []
    async with lab(apiserver) as it:
        assert (await it.ask("GET", BY_UID))[0] == 403


async def test_the_token_of_a_deleted_pod_ends_within_seconds() -> None:
    async with lab() as it:
        assert (await it.ask("GET", BY_UID))[0] == 200
        del it.apiserver.pods["rank"]
        it.clock.seconds += 11
        assert (await it.ask("GET", BY_UID))[0] == 401


async def test_a_job_that_has_taken_the_name_of_another_is_not_touched() -> None:
    async with lab() as it:
        it.apiserver.job["metadata"]["uid"] = OTHER
        status, told = await it.ask("POST", BY_NAME, {"replicas": 1})
        assert (status, it.apiserver.job["spec"]["replicas"]) == (404, 3), told


PEOPLE = {
    "may": ("bob", "PUT", BY_NAME, 200),
    "may read": ("bob", "GET", BY_NAME, 200),
    "may not": ("eve", "PUT", BY_NAME, 403),
    "may not read": ("eve", "GET", BY_NAME, 403),
    "may not, and there is none": ("eve", "GET", "/v2alpha1/ns.none/replicas", 403),
    "elsewhere": ("bob", "GET", "/v2alpha1/other.job/replicas", 403),
    "by uid": ("bob", "GET", BY_UID, 404),
}


@pytest.mark.parametrize(("who", "method", "path", "status"), PEOPLE.values(), ids=list(PEOPLE))
async def test_people_need_a_right_on_the_jobs_scale(
    who: str, method: str, path: str, status: int
) -> None:
    async with lab() as it:
        body = {"replicas": 4} if method == "PUT" else None
        assert (await it.ask(method, path, body, who))[0] == status
        assert it.apiserver.job["spec"]["replicas"] == (
            4 if (status, method) == (200, "PUT") else 3
        )


# In a URL each of them leads elsewhere, or asks for something else.
NO_NAMES = {
    "another namespace's job": "ns.x%2F..%2F..%2F..%2Fother%2Fdijobs%2Fjob",
    "through the namespace": "ns%2F..%2Fother.job",
    "a query": "ns.job%3FdryRun=All",
    "a subresource": "ns.job%2Fstatus",
    "two names": "ns.job.x",
    "upper case": "ns.Job",
    "no namespace": ".job",
    "no name": "ns.",
    "a new line": "ns.job%0A",
}


@pytest.mark.parametrize("given", NO_NAMES.values(), ids=list(NO_NAMES))
async def test_what_is_no_name_of_a_job_goes_into_no_path(given: str) -> None:
    async with lab() as it:
        for token, status in (("bob", 404), ("rank", 404)):
            path = URL(f"/v2alpha1/{given}/replicas", encoded=True)
            headers = {"Authorization": f"Bearer {token}"}
            async with it.client.get(path, headers=headers) as answer:
                assert answer.status == status, await answer.text()
        assert {call.path for call in it.apiserver.calls} == {REVIEWS, POD}


async def test_an_owner_with_the_name_of_another_path_opens_nothing() -> None:
    """The apiserver does not look at the names in a pod's ownerReferences."""
    apiserver = made()
    (owner,) = apiserver.objects[POD]["metadata"]["ownerReferences"]
    owner["name"] = "x/../../../other/dijobs/job"
    async with lab(apiserver) as it:
        assert (await it.ask("GET", BY_UID))[0] == 403
        assert {call.path for call in it.apiserver.calls} == {REVIEWS, POD}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_job_that_has_ended_keeps_its_size(phase: str) -> None:
    async with lab() as it:
        it.apiserver.job["status"]["phase"] = phase
        status, told = await it.ask("PUT", BY_UID, {"replicas": 2})
        assert (status, "has ended" in told["message"]) == (409, True)


async def test_a_job_with_tasks_is_told_what_to_change() -> None:
    async with lab(made(tasks=[{"type": "learner"}])) as it:
        status, told = await it.ask("PUT", BY_UID, {"replicas": 2})
        assert (status, "spec.tasks[].replicas" in told["message"]) == (422, True)


@pytest.mark.parametrize(("conflicts", "status"), [(3, 200), (9, 409)])
async def test_a_change_in_between_is_seen_and_not_written_over(
    conflicts: int, status: int
) -> None:
    async with lab() as it:
        it.apiserver.conflicts = conflicts
        assert (await it.ask("PUT", BY_UID, {"replicas": 2}))[0] == status


async def test_an_apiserver_that_does_not_answer_is_said() -> None:
    async with lab() as it:
        it.apiserver.down = True
        status, told = await it.ask("GET", BY_UID)
        assert (status, "connection refused" in told["message"]) == (503, True)
        it.apiserver.down = False
        assert (await it.ask("GET", BY_UID))[0] == 200


async def test_requests_of_one_person_are_limited_before_they_cost_the_apiserver_anything() -> None:
    async with lab() as it:
        codes = [(await it.ask("GET", BY_NAME, token="eve"))[0] for _ in range(120)]
        assert codes == [403] * 100 + [429] * 20
        assert sum(call.path == ACCESS for call in it.apiserver.calls) == 100


async def test_requests_about_one_job_are_limited_and_cost_the_apiserver_little() -> None:
    async with lab() as it:
        codes = [(await it.ask("GET", BY_UID))[0] for _ in range(40)]
        assert codes == [200] * 30 + [429] * 10
        assert sum(call.path == REVIEWS for call in it.apiserver.calls) == 1
        it.clock.seconds += 0.1
        assert (await it.ask("GET", BY_UID))[0] == 200


async def test_unknown_tokens_from_one_address_are_limited() -> None:
    async with lab() as it:
        codes = [(await it.ask("GET", BY_UID, token=f"t{n}"))[0] for n in range(60)]
        assert codes == [401] * 50 + [429] * 10
        assert sum(call.path == REVIEWS for call in it.apiserver.calls) == 100


async def test_profilings_are_kept_the_last_of_them() -> None:
    async with lab() as it:
        for number in range(10):
            it.clock.seconds += 20
            path = f"/v2alpha1/job/{UID}/profilings"
            assert (await it.ask("POST", path, {"step": number}))[0] == 200
        kept = it.apiserver.job["status"]["profilings"]
        assert [each["data"]["step"] for each in kept] == list(range(2, 10))
        assert {each["pod"] for each in kept} == {"job-0"}
        codes = [(await it.ask("POST", path, {"step": 0}))[0] for _ in range(7)]
        assert codes.count(429) == 3


async def test_progress_is_one_line_a_minute_and_nothing_of_it_is_lost() -> None:
    async with lab() as it:
        path = f"/v2alpha1/{UID}/progress"

        def line() -> str:
            return str(it.apiserver.job["status"].get("progress", {}).get("line", ""))

        assert (await it.ask("POST", path, {"iteration": 100, "env_step": 6400}))[0] == 200
        await it.server.reports.write_due()
        assert line() == "iter 100, step 6400"
        await it.ask("POST", path, {"iteration": 200})
        await it.ask("POST", path, {"episode_return": 187.0})
        it.clock.seconds += PROGRESS_SECONDS - 1
        await it.server.reports.write_due()
        assert line() == "iter 100, step 6400"
        it.clock.seconds += 1
        await it.server.reports.write_due()
        assert line() == "iter 200, step 6400, return 187"
        assert it.apiserver.job["status"]["phase"] == "Running"
        writes = [call for call in it.apiserver.calls if call.method == "PATCH"]
        assert len(writes) == 2


async def test_another_replica_of_the_server_has_just_written_the_line() -> None:
    async with lab() as it:
        said = ProgressRequest(iteration=1).progress
        job = await it.server.callers.job(
            await it.server.callers.of("Bearer rank", "x"), UID, "get"
        )
        twin = Reports(cast(Api, it.apiserver), it.server.sizes, clock=it.clock)
        await twin.progress(job, said)
        await twin.write_due()
        it.clock.seconds += 10
        await it.server.reports.progress(job, ProgressRequest(iteration=2).progress)
        await it.server.reports.write_due()
        assert it.apiserver.job["status"]["progress"]["iteration"] == 1
        it.clock.seconds += PROGRESS_SECONDS - 9
        await it.server.reports.write_due()
        assert it.apiserver.job["status"]["progress"]["iteration"] == 2


async def test_what_another_replica_has_heard_later_stands() -> None:
    async with lab() as it:
        job = await it.server.callers.job(
            await it.server.callers.of("Bearer rank", "x"), UID, "get"
        )
        twin = Reports(cast(Api, it.apiserver), it.server.sizes, clock=it.clock)
        await it.server.reports.progress(job, ProgressRequest(iteration=1, env_step=9).progress)
        it.clock.seconds += 50
        await twin.progress(job, ProgressRequest(iteration=2, episode_return=7.0).progress)
        await twin.write_due()
        for seconds in (0, PROGRESS_SECONDS - 1):
            it.clock.seconds += seconds
            await it.server.reports.write_due()
            assert it.apiserver.job["status"]["progress"]["line"] == "iter 2, return 7"
        it.clock.seconds += 1
        await it.server.reports.write_due()
        assert it.apiserver.job["status"]["progress"]["line"] == "iter 2, step 9, return 7"


async def test_replicas_of_the_server_share_what_may_be_written() -> None:
    async with lab() as it:
        api = cast(Api, it.apiserver)
        twin = Reports(api, it.server.sizes, Manner(replicas=2), it.clock)
        for number in range(3):
            path = JOBS.path("ns", f"job-{number}")
            it.apiserver.objects[path] = it.apiserver.objects[JOB]
            await twin.progress(
                JobName("ns", f"job-{number}"), ProgressRequest(iteration=1).progress
            )
        written = []
        for _ in range(5):
            await twin.write_due()
            written.append(sum(call.method == "PATCH" for call in it.apiserver.calls))
            it.clock.seconds += 0.5
        assert written == [1, 1, 2, 2, 3]


async def test_progress_of_no_job_is_refused_at_once() -> None:
    async with lab() as it:
        it.apiserver.allowed.add(("bob", "update", "ns/none"))
        status, told = await it.ask("POST", "/v2alpha1/ns.none/progress", {"iteration": 1}, "bob")
        assert (status, told["message"]) == (404, "there is no DIJob ns.none")


async def test_a_metric_of_a_job_ends_with_what_it_says() -> None:
    async with lab() as it:
        api = cast(Api, it.apiserver)
        reports = Reports(api, it.server.sizes, Manner(by_job=True), it.clock)
        await reports.progress(JobName("ns", "job"), ProgressRequest(env_step=7).progress)
        gauge = ("dijob_job_progress", {"namespace": "ns", "job": "job", "what": "env_step"})
        assert REGISTRY.get_sample_value(*gauge) == 7
        it.clock.seconds += SILENT_SECONDS
        await reports.write_due()
        assert REGISTRY.get_sample_value(*gauge) == 7
        it.clock.seconds += 1
        await reports.write_due()
        assert REGISTRY.get_sample_value(*gauge) is None


async def test_all_lines_together_are_two_writes_a_second() -> None:
    async with lab() as it:
        for number in range(6):
            path = JOBS.path("ns", f"job-{number}")
            body = json.loads(json.dumps(it.apiserver.objects[JOB]))
            body["metadata"] |= {"name": f"job-{number}", "uid": ""}
            it.apiserver.objects[path] = body
            said = ProgressRequest(iteration=number).progress
            await it.server.reports.progress(JobName("ns", f"job-{number}"), said)
        written = []
        for _ in range(6):
            await it.server.reports.write_due()
            written.append(sum(call.method == "PATCH" for call in it.apiserver.calls))
            it.clock.seconds += 0.5
        assert written == [1, 2, 3, 4, 5, 6]


def test_a_limit_lets_through_what_it_says() -> None:
    limit = Limit(Rate(2.0, 4.0))
    assert [limit.take("a", 10.0) for _ in range(4)] == [0.0] * 4
    assert limit.take("a", 10.0) == pytest.approx(0.5)
    assert limit.take("b", 10.0) == 0.0
    assert [limit.take("a", 10.5), limit.take("a", 10.9)] == [0.0, pytest.approx(0.1)]


def test_the_page_has_each_series() -> None:
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    page = page.partition("## The HTTP server's")[2]
    rows = re.findall(r"^\| `(dijob_\w+)` \|([^|]*)\|", page, re.MULTILINE)
    told = {name.removesuffix("_total"): re.findall(r"`(\w+)`", labels) for name, labels in rows}
    names: Any = REGISTRY._collector_to_names
    assert told == {each._name: list(each._labelnames) for each in names}


def test_the_description_has_each_route_once() -> None:
    paths = document()["paths"]
    told = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert told == {(route.method, path) for route in ROUTES for path in route.paths}
