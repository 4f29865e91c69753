"""The API client against a server on the loopback interface: limits, errors and metrics."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cluster.waiting import until_true_async
from dijob.controller import metrics
from dijob.core import pace
from dijob.core.pace import FIRST_WINDOW
from dijob.kube import api as api_module
from dijob.kube.api import Api, RequestError, Stream
from dijob.kube.connection import OperatorRequest, proxy_for
from dijob.kube.kinds import JOB_STATUS, JOBS, LEASES, PODS
from fakes.loopback import Server

BOUND_SECONDS = 20.0


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    """Yield a server and its URL."""
    behaviour, app = Server(), web.Application()
    app.router.add_route("*", "/api/v1/namespaces/{namespace}/{rest:.*}", behaviour.answer)
    async with TestServer(app) as running:
        yield behaviour, str(running.make_url("/"))
        behaviour.end()


@pytest.fixture
async def api(
    server: tuple[Server, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Api]:
    """Connect with a kubeconfig, as outside a cluster. No write counts as slow."""
    monkeypatch.setattr(pace, "SLOW_SECONDS", BOUND_SECONDS)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": server[1].rstrip("/")}}],
        "users": [{"name": "me", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    connected = await Api.connect(str(path))
    yield connected
    await connected.close()


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@contextlib.asynccontextmanager
async def busy(*works: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run other work in the background."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def follow(api: Api, namespace: str, seen: set[str], name: str) -> None:
    async for _ in api.watch(Stream(pods(namespace), "a=b")):
        seen.add(name)


async def test_watches_of_sixty_namespaces_leave_connections_for_writes(api: Api) -> None:
    seen: set[str] = set()
    watches = [
        (f"ns-{number}", f"{number}-{kind}")
        for number in range(60)
        for kind in ("pods", "services")
    ]
    async with (
        asyncio.timeout(BOUND_SECONDS),
        busy(*(follow(api, ns, seen, name) for ns, name in watches)),
    ):
        await until_true_async("the watches", lambda: len(seen) == len(watches))
        await asyncio.gather(*(api.create(pods(f"ns-{number}"), {}) for number in range(60)))


@pytest.mark.parametrize(
    "slow", [("slow",), ("slow-0", "slow-1", "slow-2", "slow-3")], ids=["one", "four"]
)
async def test_writes_that_hang_in_some_namespaces_do_not_delay_others(
    api: Api, server: tuple[Server, str], slow: tuple[str, ...]
) -> None:
    """A webhook can take 30 s for each response, and a job can have 1,500 pods."""
    api._slots._seconds = 0.05
    hanging = [api.create(pods(namespace), {}) for namespace in slow for _ in range(200)]
    async with asyncio.timeout(BOUND_SECONDS), busy(*hanging):
        each = api._slots.each
        await until_true_async("the writes", lambda: server[0].hanging == each * len(slow))
        await asyncio.gather(*(api.create(pods("quick"), {}) for _ in range(100)))
        assert each * len(slow) <= server[0].hanging <= api._slots.each * len(slow)


async def test_writes_of_many_namespaces_share_one_limit(
    api: Api, server: tuple[Server, str]
) -> None:
    api._slots._seconds = BOUND_SECONDS  # a busy machine takes longer than BRISK_SECONDS
    writes = [api.create(pods(f"slow-{number}"), {}) for number in range(200)]
    async with asyncio.timeout(BOUND_SECONDS), busy(*writes):
        await until_true_async("the writes", lambda: server[0].hanging == FIRST_WINDOW)
        await asyncio.gather(*(api.get(pods("quick")) for _ in range(10)))
        assert server[0].hanging == FIRST_WINDOW


async def test_no_write_is_sent_before_retry_after(api: Api, server: tuple[Server, str]) -> None:
    server[0].rejections.append({"reason": "TooManyRequests", "message": "too many requests"})
    with pytest.raises(RequestError):
        await api.create(pods("quick"), {})
    refused = server[0].writes[-1]
    await api.create(pods("other"), {})
    assert server[0].writes[-1] - refused >= server[0].again
    assert api._slots.window.size == FIRST_WINDOW / 2


async def test_a_429_of_a_webhook_does_not_delay_other_writes(
    api: Api, server: tuple[Server, str]
) -> None:
    server[0].rejections.append({"message": 'admission webhook "x" denied the request: not now'})
    with pytest.raises(RequestError):
        await api.create(pods("quick"), {})
    assert api._slots.window.size >= FIRST_WINDOW
    assert not api._slots._closed


async def test_a_response_is_a_pulse_and_an_error_is_not(api: Api) -> None:
    beats: list[float] = []
    api.availability.beat = lambda: beats.append(0.0)  # type: ignore[method-assign]
    with pytest.raises(RequestError):
        await api.get("/nowhere")
    assert not beats
    await api.get(pods("quick"))
    assert len(beats) == 1
    async for _ in api.watch(Stream(pods("quick"), "a=b")):
        break
    assert len(beats) == 3


IMMUTABLE = {
    "reason": "FieldValueInvalid",
    "message": "field is immutable",
    "field": "metadata.uid",
}


@pytest.mark.parametrize(
    ("status", "causes", "conflict"),
    [
        pytest.param(409, [], True, id="deleted with another uid, or another version"),
        pytest.param(422, [IMMUTABLE], True, id="patched with another uid"),
        pytest.param(
            422, [{**IMMUTABLE, "field": "spec.containers"}], False, id="another field is immutable"
        ),
        pytest.param(422, [IMMUTABLE, {**IMMUTABLE, "field": "spec"}], True, id="both"),
        pytest.param(422, None, False, id="an error without causes"),
        pytest.param(500, [IMMUTABLE], False, id="another status"),
    ],
)
def test_which_errors_are_conflicts(status: int, causes: Any, conflict: bool) -> None:
    answer = {"kind": "Status", "reason": "Invalid", "message": "no", "details": {"causes": causes}}
    error = api_module.error_of(status, json.dumps(answer).encode())
    assert (error.conflict, error.reason, error.message) == (conflict, "Invalid", "no")


@pytest.mark.parametrize(
    "data", [b"", b"no json", b"[]", b'{"details": null}', b'{"details": {"causes": [1]}}']
)
def test_an_error_with_any_body_has_its_status(data: bytes) -> None:
    assert api_module.error_of(422, data).status == 422


PROXY = "http://user:word@proxy:3128"


@pytest.mark.parametrize(
    ("environment", "server", "proxy"),
    [
        ({}, "https://10.0.0.1:6443", None),
        ({"HTTPS_PROXY": PROXY}, "https://10.0.0.1:6443", PROXY),
        ({"https_proxy": PROXY}, "https://api.example", PROXY),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": ".example,10.0.0.1"}, "https://10.0.0.1", None),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": ".example,10.0.0.1"}, "https://api.example", None),
        ({"HTTP_PROXY": PROXY}, "https://api.example", None),
    ],
    ids=[
        "none",
        "upper-case",
        "lower-case",
        "left-out-address",
        "left-out-domain",
        "another-scheme",
    ],
)
def test_the_proxy_comes_from_the_environment(
    environment: dict[str, str], server: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        for each in (name, name.lower()):
            monkeypatch.delenv(each, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(server) == proxy


CALLS = {
    "a pod": (OperatorRequest("GET", PODS.path("ns", "x")), "GET pods"),
    "pods of a namespace": (OperatorRequest("GET", PODS.path("ns")), "LIST pods"),
    "all pods": (OperatorRequest("GET", PODS.path()), "LIST pods"),
    "a new pod": (OperatorRequest("POST", PODS.path("ns"), {}), "POST pods"),
    "all jobs": (OperatorRequest("GET", JOBS.path()), "LIST dijobs"),
    "a job": (OperatorRequest("DELETE", JOBS.path("ns", "x")), "DELETE dijobs"),
    "a status": (
        OperatorRequest("PATCH", f"{JOBS.path('ns', 'x')}/status", {}),
        f"PATCH {JOB_STATUS.plural}",
    ),
    "an object in a namespace named namespaces": (
        OperatorRequest("GET", LEASES.path("namespaces", "x")),
        "GET leases",
    ),
    "a namespace": (OperatorRequest("GET", "/api/v1/namespaces/ns"), "GET namespaces"),
    "a path outside the API": (OperatorRequest("GET", "/version"), "LIST "),
}


@pytest.mark.parametrize(("call", "label"), CALLS.values(), ids=CALLS)
def test_a_request_is_measured_by_verb_and_kind(call: OperatorRequest, label: str) -> None:
    assert f"{call.verb} {call.kind}" == label


def measured(method: str, kind: str = "pods") -> float:
    name = "dijob_api_request_duration_seconds_count"
    return metrics.REGISTRY.get_sample_value(name, {"method": method, "kind": kind}) or 0.0


async def test_requests_and_errors_are_measured_and_watches_are_not(
    api: Api, server: tuple[Server, str]
) -> None:
    before = {method: measured(method) for method in ("GET", "LIST", "POST")}
    server[0].rejections.append({"message": "no"})
    server[0].again = 0
    with pytest.raises(RequestError):
        await api.create(pods("a"), {})
    await api.create(pods("a"), {})
    await api.get(f"{pods('a')}/x")
    seen: set[str] = set()
    async with busy(follow(api, "a", seen, "watch")):
        await until_true_async("the watch", lambda: bool(seen))
    grown = {method: measured(method) - count for method, count in before.items()}
    assert grown == {"GET": 1, "LIST": 0, "POST": 2}


async def test_an_apiserver_that_hangs_is_measured(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "TIMEOUT_SECONDS", 0.2)
    before = measured("POST")
    with pytest.raises(RequestError, match="Timeout"):
        await api.create(pods("slow"), {})
    assert measured("POST") - before == 1
