"""The HTTP server that running jobs call, in front of a simulated apiserver. The test controls the
clock.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from aiohttp.test_utils import TestClient, TestServer
from dijob import names
from dijob.core.render.server import AUDIENCE
from dijob.kube.api import Api, RequestError
from dijob.kube.connection import OperatorRequest
from dijob.kube.kinds import JOBS, PODS
from dijob.process.clock import SYSTEM, Clock
from dijob.server.app import Server
from dijob.server.callers import ACCESS, REVIEWS, Callers
from dijob.server.reports import Reports
from dijob.server.sizes import Sizes
from manifests import dijob
from samples.builders import NOW

Body = dict[str, Any]

UID = "5d571f46-ffb7-46dc-92d2-29d6768afe1a"
OTHER = "5d571f46-ffb7-46dc-92d2-000000000000"
JOB, POD = JOBS.path("ns", "job"), PODS.path("ns", "job-0")
BY_UID, BY_NAME = f"/v2alpha1/{UID}/replicas", "/v2alpha1/ns.job/replicas"


@dataclass
class Apiserver:
    """Stores objects by path and users by token. Pods have tokens for AUDIENCE, and people have
    tokens for the apiserver.
    """

    objects: dict[str, Body] = field(default_factory=dict)
    pods: dict[str, Body] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    calls: list[OperatorRequest] = field(default_factory=list)
    conflicts: int = 0
    down: bool = False
    clock: Clock = SYSTEM

    async def close(self) -> None:
        pass

    async def get(self, path: str, **query: str) -> Body:
        return await self.call(OperatorRequest("GET", path, query=query))

    async def call(self, call: OperatorRequest) -> Body:
        self.calls.append(call)
        if self.down:
            raise RequestError(0, "ClientConnectionError", "connection refused")
        if call.path == REVIEWS:
            return self._review(call.body or {})
        if call.path == ACCESS:
            return self._access(call.body or {})
        if call.method == "PATCH":
            return self._patch(call)
        if call.path == PODS.path("ns"):
            return {"items": [each for path, each in self.objects.items() if "/pods/" in path]}
        if call.path not in self.objects:
            raise RequestError(404, "NotFound", "there is none")
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

    def _patch(self, call: OperatorRequest) -> Body:
        path, _, sub = call.path.rpartition("/")
        body, patch = self.objects[path], cast(Body, call.body)
        assert call.query == {"fieldManager": "dijob-server"}
        if self.conflicts or patch["metadata"]["resourceVersion"] != body["metadata"][VERSION]:
            self.conflicts -= 1
            raise RequestError(409, "Conflict", "it has changed")
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
    """Return a cluster with a job of three ranks in namespace ns, and two tokens. "rank" is the
    token of a pod, and "bob" that of a person.
    """
    sizes = {"replicas": 3, "minReplicas": 1, "maxReplicas": 5}
    job = {
        **dijob("job", {"image": "img:1", "command": ["ditask"]}, **{**sizes, **spec}),
        "status": {"phase": "Running"},
    }
    job["metadata"] |= {"namespace": "ns", "uid": UID, VERSION: "1"}
    server = Apiserver({JOB: job, **{PODS.path("ns", f"job-{n}"): pod(n) for n in range(3)}})
    server.pods = {"rank": token_of("job-0", "pod-0")}
    server.people = {"bob": "bob", "eve": "eve"}
    server.allowed = {("bob", "get", "ns/job"), ("bob", "update", "ns/job")}
    return server


class Standing(Clock):
    """A clock that the test controls."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)


@dataclass
class Lab:
    """A server in front of a simulated apiserver, and a client for it."""

    apiserver: Apiserver
    server: Server
    client: TestClient[Any, Any]
    clock: Standing

    async def ask(
        self, method: str, path: str, body: Any = None, token: str = "rank"
    ) -> tuple[int, Body]:
        """Send a request, check that the response has the form that all responses share, and return
        its status and body.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        async with self.client.request(method, path, data=data, headers=headers) as answer:
            reply = await answer.json()
            assert set(reply) == {"success", "code", "message", "data"}
            assert (reply["success"], reply["code"]) == (answer.status == 200, answer.status != 200)
            assert ("Retry-After" in answer.headers) == (
                answer.status in (429, 503, 409) and "ended" not in reply["message"]
            )
            return answer.status, reply


@asynccontextmanager
async def lab(apiserver: Apiserver | None = None) -> AsyncIterator[Lab]:
    apiserver, clock = apiserver or made(), Standing()
    api = cast(Api, apiserver)
    sizes = Sizes(api)
    server = Server(Callers(api, clock), sizes, Reports(api, sizes, clock=clock), clock)
    async with TestClient(TestServer(server.app())) as client:
        yield Lab(apiserver, server, client, clock)
