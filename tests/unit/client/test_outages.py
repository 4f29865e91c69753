"""Connections that become silent, kubelets that do not respond, logs that are forbidden."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from dijob.client import AsyncClient, LogOptions, Refused, logs, watching
from dijob.client.waiting import wait_for_outcome
from unit.client.kubelets import JOBS, PODS, Kubelets, kubelets

Body = dict[str, Any]
BOUND = 30.0


async def test_the_client_restarts_a_silent_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_SILENCE_SECONDS", 0.2)

    async def silent(self: Kubelets, request: web.Request) -> web.StreamResponse:
        """End the job without sending an event."""
        response = web.StreamResponse()
        await response.prepare(request)
        await self.finish()
        await asyncio.Event().wait()
        return response

    monkeypatch.setattr(Kubelets, "_watch", silent)
    async with kubelets(tmp_path) as (_, kubeconfig), AsyncClient(kubeconfig) as client:
        outcome = await asyncio.wait_for(client.wait("test"), BOUND)
    assert outcome.ok


async def test_a_wait_with_timeout_0_checks_once(tmp_path: Path) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.finish()
        assert (await client.wait("test", timeout=0)).ok


async def test_the_first_state_is_subject_to_the_timeout() -> None:
    async def nothing() -> AsyncGenerator[None]:
        await asyncio.Event().wait()
        yield None

    with pytest.raises(Exception, match=r"test is not finished after 0\.01 s"):
        await wait_for_outcome(nothing(), "test", timeout=0.01)


async def followed(client: AsyncClient) -> list[str]:
    async with aclosing(client.logs("test", LogOptions(follow=True))) as lines:
        return [f"{line.rank} {line.text}" async for line in lines]


@asynccontextmanager
async def answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rejections: list[web.Response]
) -> AsyncGenerator[tuple[Kubelets, AsyncClient]]:
    """Reject requests for the logs of rank 1 with these errors in turn, then serve them."""
    log = Kubelets.log

    async def refused(self: Kubelets, request: web.Request) -> web.StreamResponse:
        if request.match_info["name"] == "test-1" and rejections:
            return rejections.pop()
        return await log(self, request)

    monkeypatch.setattr(logs, "_PAUSE_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(Kubelets, "log", refused)
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        for rank in (0, 1):
            await made.start(rank)
            await made.say(rank, 10 + rank, "hello")
        yield made, client


async def test_a_kubelet_without_a_response_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejections = [
        web.json_response({"message": "connection refused"}, status=500) for _ in range(3)
    ]
    async with answered(tmp_path, monkeypatch, rejections) as (made, client):
        for rank in (0, 1):
            await made.stop(rank)
        await made.finish()
        assert await asyncio.wait_for(followed(client), BOUND) == ["0 hello", "1 hello"]
    assert not rejections


async def test_forbidden_logs_end_with_the_apiservers_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no = {"message": 'pods "test-1" is forbidden: cannot get "pods/log"', "reason": "Forbidden"}
    rejections = [web.json_response(no, status=403)]
    async with answered(tmp_path, monkeypatch, rejections) as (_, client):
        with pytest.raises(Refused, match="pods/log"):
            await asyncio.wait_for(followed(client), BOUND)


@asynccontextmanager
async def behind_a_tunnel(tmp_path: Path, made: Kubelets) -> AsyncGenerator[str]:
    """Provide a kubeconfig whose apiserver has a certificate for a name that is not its address."""
    ca = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("kubernetes").configure_cert(context)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    app = web.Application()
    app.router.add_get(f"{JOBS}/test", made.one)
    app.router.add_get(PODS, made.objects)
    app.router.add_get(f"{PODS}/{{name}}/exec", made.execute)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    host, port = runner.addresses[0][:2]
    cluster = {
        "server": f"https://{host}:{port}",
        "tls-server-name": "kubernetes",
        "certificate-authority": str(tmp_path / "ca.pem"),
    }
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "current-context": "c",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    try:
        yield str(file)
    finally:
        await runner.cleanup()


async def test_exec_works_through_a_tunnel(tmp_path: Path) -> None:
    made = Kubelets()
    await made.start(0)
    async with (
        behind_a_tunnel(tmp_path, made) as kubeconfig,
        AsyncClient(kubeconfig) as client,
    ):
        assert (await client.exec("test", 0, ["cat"], b"hello")).stdout == b"hello"


async def test_exec_is_retried_with_a_new_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, tokens = Kubelets.execute, list[str]()

    async def expired(self: Kubelets, request: web.Request) -> web.StreamResponse:
        tokens.append(request.headers["Authorization"])
        return web.Response(status=401) if len(tokens) == 1 else await execute(self, request)

    monkeypatch.setattr(Kubelets, "execute", expired)
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        assert (await client.exec("test", 0, ["cat"], b"hello")).stdout == b"hello"
    assert tokens == ["Bearer t", "Bearer t"]
