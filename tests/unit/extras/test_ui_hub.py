"""How `ui` follows an apiserver: changes, deletions, rejections, outages."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from dijob.client import AsyncClient, retrying
from dijob_extras.ui import hub, measured, tail, usage
from dijob_extras.ui.hub import Hub
from dijob_extras.ui.sse import Message, Messages
from unit.client.kubelets import EVENTS, Kubelets, kubelets

SECONDS = 10.0


@pytest.fixture
async def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Kubelets, AsyncClient]]:
    for name in ("_AGAIN_SECONDS", "_PULSE_SECONDS", "_BEAT_SECONDS", "_PACE_SECONDS"):
        monkeypatch.setattr(hub, name, 0.05)
    monkeypatch.setattr(tail, "_BEAT_SECONDS", 0.05)
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        yield made, client


async def until(messages: Messages, event: str, wanted: Callable[[Any], bool]) -> Any:
    """Return the data of the first message of this event that satisfy the condition."""
    heard = list[Message]()
    try:
        async with asyncio.timeout(SECONDS):
            async for message in messages:
                if message and message.event == event and wanted(message.data):
                    return message.data
                heard += [message] if message else []
    except TimeoutError:
        pass
    raise AssertionError(f"no {event} as wanted in {heard[-3:]}")


def names(data: Any) -> list[str]:
    return [f"{job['namespace']}/{job['name']} {job['phase']}" for job in data["jobs"]]


@pytest.mark.parametrize("everywhere", [False, True], ids=["namespace", "all namespaces"])
async def test_the_list_follows_changes_of_jobs(
    world: tuple[Kubelets, AsyncClient], everywhere: bool
) -> None:
    made, client = world
    shown = Hub(client, everywhere)
    work = asyncio.ensure_future(shown.run())
    async with aclosing(shown.jobs()) as messages:
        about = await until(messages, "about", lambda data: True)
        assert about["scope"] == ("all namespaces" if everywhere else "namespace default")
        await until(messages, "jobs", lambda data: names(data) == ["default/test Pending"])
        await made.finish()
        await until(messages, "jobs", lambda data: names(data) == ["default/test Succeeded"])
        made.job = None
        await made.change()
        await until(messages, "jobs", lambda data: names(data) == [])
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_an_unhealthy_apiserver_is_reported_until_it_recovers(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    made, client = world
    shown = Hub(client)
    work = asyncio.ensure_future(shown.run())
    async with aclosing(shown.job("default", "test")) as messages:
        made.down = "etcd has gone"
        told = await until(messages, "trouble", lambda data: data["sentence"])
        assert told == {"sentence": "etcd has gone"}
        made.down = ""
        await until(messages, "trouble", lambda data: not data["sentence"])
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_a_job_from_its_start_to_its_deletion(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    made, client = world
    async with aclosing(Hub(client).job("default", "test")) as messages:
        spec = await until(messages, "spec", lambda data: True)
        assert "kind: DIJob" in spec["yaml"]
        await until(messages, "job", lambda data: data["phase"] == "Pending")
        await made.start(0)
        await until(messages, "job", lambda data: data["ranks"])
        await made.finish()
        over = await until(messages, "job", lambda data: data["phase"] == "Succeeded")
        assert [step["value"] for step in over["phases"]][-1] == "Succeeded"
        await made.stop(0)
        await until(messages, "job", lambda data: data["ranks"][0]["kind"] == "done")
        kept, made.job = made.job, None
        await made.change()
        gone = await until(messages, "gone", lambda data: True)
        assert gone == {"sentence": "test in namespace default was deleted"}
        made.job = kept
        await made.change()
        await until(messages, "job", lambda data: data["name"] == "test")


async def test_the_page_shows_the_usage_if_the_cluster_measures_it(tmp_path: Path) -> None:
    async def metrics(request: web.Request) -> web.StreamResponse:
        assert request.query["labelSelector"] == "diengine.opendilab.org/job=test"
        used = [{"name": "di-container", "usage": {"cpu": "250m"}}]
        return web.json_response({"items": [{"metadata": {"name": "test-0"}, "containers": used}]})

    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    async with (
        kubelets(tmp_path, lambda made: [web.get(path, metrics)]) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
        aclosing(Hub(client).job("default", "test")) as messages,
    ):
        await made.start(0)
        await until(messages, "job", lambda data: any(rank["use"] for rank in data["ranks"]))


@pytest.mark.parametrize("measures", [True, False], ids=["measured", "not asked for"])
async def test_the_page_measures_in_the_pods_only_if_the_user_asks_for_it(
    world: tuple[Kubelets, AsyncClient], monkeypatch: pytest.MonkeyPatch, measures: bool
) -> None:
    made, client = world
    made.programs = ("sh",)
    # The files of this machine differ from those of a container.
    script = "echo '# memory.current'; echo 3072; echo '# gpus'; echo '7, 1, 2'"
    monkeypatch.setattr(measured, "_SCRIPT", script)
    monkeypatch.setattr(usage, "_EVERY_SECONDS", 0.05)
    await made.start(0)
    async with aclosing(Hub(client, measure=measures).job("default", "test")) as messages:
        if measures:
            used = await until(
                messages, "job", lambda data: any(rank["use"] for rank in data["ranks"])
            )
            assert used["ranks"][0]["use"] == "memory 3Ki, GPU 7 %, 1Mi of 2Mi"
        else:
            shown = [await until(messages, "job", lambda data: data["ranks"]) for _ in range(5)]
            assert {one["ranks"][0]["use"] for one in shown} == {""}


async def test_a_closed_page_leaves_no_task_behind(world: tuple[Kubelets, AsyncClient]) -> None:
    """Python would print "Task was destroyed but it is pending!"."""
    made, client = world
    await made.start(0)
    before = asyncio.all_tasks()

    async def follow() -> None:
        async with aclosing(Hub(client).job("default", "test")) as messages:
            async for _ in messages:
                shown.set()

    shown = asyncio.Event()
    page = asyncio.ensure_future(follow())
    async with asyncio.timeout(SECONDS):
        await shown.wait()
        # The page now waits for a change.
        await asyncio.sleep(0)
        page.cancel()
        await asyncio.wait({page})
        for _ in range(3):
            await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    assert not [one for one in left if "Event.wait" in repr(one)]


async def test_a_job_that_does_not_exist(world: tuple[Kubelets, AsyncClient]) -> None:
    made, client = world
    made.job = None
    async with aclosing(Hub(client).job("default", "test")) as messages:
        gone = await until(messages, "gone", lambda data: True)
        assert gone == {"sentence": "there is no DIJob test in namespace default"}


async def test_a_job_is_shown_without_permission_to_list_events(
    world: tuple[Kubelets, AsyncClient],
) -> None:
    made, client = world
    made.forbidden.add(EVENTS)
    await made.start(0)
    async with aclosing(Hub(client).job("default", "test")) as messages:
        told = await until(messages, "job", lambda data: data["unseen"] and data["ranks"])
        assert told["unseen"] == [f'events is forbidden: User "u" cannot list {EVENTS}']
        assert told["ranks"][0]["kind"] == "waiting"


async def test_a_log_is_followed_until_the_job_ends(world: tuple[Kubelets, AsyncClient]) -> None:
    made, client = world
    await made.start(0)
    await made.start(1)
    async with aclosing(Hub(client).log("default", "test", 1)) as messages:
        await made.say(0, 1, "not this one")
        await made.say(1, 2, "\x1b[1mhello\x1b[0m")
        assert await until(messages, "lines", lambda data: True) == [
            {"time": "1970-01-01T00:00:02.000Z", "rank": 1, "text": "hello"}
        ]
        await made.say(1, 3, "bye")
        await made.stop(0)
        await made.stop(1)
        await made.finish()
        lines = await until(messages, "lines", lambda data: True)
        assert [line["text"] for line in lines] == ["bye"]
        assert await until(messages, "end", lambda data: True) == {"sentence": "the log has ended"}
    async with aclosing(Hub(client).log("default", "test", None)) as messages:
        lines = list[Any]()
        while len(lines) < 3:  # they need not come in one message
            lines += await until(messages, "lines", lambda data: True)
        assert [line["text"] for line in lines] == ["not this one", "hello", "bye"]
    async with aclosing(Hub(client).text("default", "test", None)) as pieces:
        text = "".join([piece async for piece in pieces])
    assert text.splitlines()[1] == "1970-01-01T00:00:02.000Z [1] hello"
    async with aclosing(Hub(client).text("default", "test", 0)) as pieces:
        assert [piece async for piece in pieces] == ["1970-01-01T00:00:01.000Z not this one\n"]


async def test_the_log_of_a_job_that_does_not_exist(world: tuple[Kubelets, AsyncClient]) -> None:
    made, client = world
    made.job = None
    async with aclosing(Hub(client).log("default", "test", 0)) as messages:
        ended = await until(messages, "end", lambda data: True)
        assert ended == {"sentence": "there is no DIJob test in namespace default"}


async def test_the_page_reports_watches_that_do_not_last(
    world: tuple[Kubelets, AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12: requests of /version succeeded, so the page showed no problem."""

    async def ended(self: Kubelets, request: web.Request) -> web.StreamResponse:
        return web.Response()

    monkeypatch.setattr(Kubelets, "_watch", ended)
    monkeypatch.setattr(retrying, "_SILENT_SECONDS", 0.0)
    _, client = world
    shown = Hub(client)
    work = asyncio.ensure_future(shown.run())
    async with aclosing(shown.jobs()) as messages:
        said = await until(messages, "trouble", lambda data: "watch" in data["sentence"])
    work.cancel()
    assert "keeps failing and is being retried: the connection ended" in said["sentence"]
    await asyncio.gather(work, return_exceptions=True)
