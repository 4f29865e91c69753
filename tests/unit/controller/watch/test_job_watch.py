"""H42: the watch of DIJobs while the CRD is missing, deleted, or recreated."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from dijob import names
from dijob.controller.watch.arrivals import Arrivals
from dijob.controller.watch.job_watch import JobWatch
from dijob.kube.api import Api, RequestError

pytestmark = pytest.mark.virtual_time

GROUPS = {"groups": [{"name": "apps"}, {"name": names.GROUP}]}
KINDS = {"resources": [{"name": "dijobs/status"}, {"name": "dijobs"}]}
Answers = Mapping[str, Mapping[str, Any] | RequestError]


class Server:
    """An apiserver with these discovery documents."""

    def __init__(self, groups: Any = GROUPS, kinds: Any = KINDS) -> None:
        self.answers = {"/apis": groups, f"/apis/{names.API_VERSION}": kinds}
        self.asked = 0

    async def get(self, path: str) -> Mapping[str, Any]:
        self.asked += 1
        answer = self.answers[path]
        if isinstance(answer, RequestError):
            raise answer
        return cast(Mapping[str, Any], answer)


class Jobs:
    """Counts how often all jobs were forgotten."""

    def __init__(self) -> None:
        self.gone = 0

    def all_gone(self) -> None:
        self.gone += 1


class Watch(JobWatch):
    """A watch with scripted runs of kopf."""

    def __init__(self, server: Server, *ends: Exception | None) -> None:
        self.jobs = Jobs()
        super().__init__(cast(Api, server), cast(Arrivals, self.jobs), ())
        self.server, self.ends, self.runs = server, list(ends), 0

    async def _watch(self, stop: asyncio.Event) -> None:
        assert self.served
        self.runs += 1
        if error := self.ends.pop(0):
            raise error


def no(status: int) -> RequestError:
    return RequestError(status, "", "no")


class NotFoundError(Exception):
    """The exception that kopf raises after a 404."""

    status = 404


@pytest.mark.parametrize(
    ("server", "served"),
    [
        pytest.param(Server(), True, id="the CRD exists"),
        pytest.param(Server(groups={"groups": [{"name": "apps"}]}), False, id="no such group"),
        pytest.param(
            Server(kinds={"resources": []}), False, id="the group exists without the kind"
        ),
        pytest.param(Server(kinds=no(404)), False, id="the group exists in another version"),
        pytest.param(Server(groups=no(403)), True, id="no permission to look: kopf reports it"),
        pytest.param(Server(groups=no(503)), None, id="no answer"),
    ],
)
async def test_h42_whether_the_crd_exists_is_read_from_the_discovery_documents(
    server: Server, served: bool | None
) -> None:
    assert await Watch(server)._is_served() is served


async def test_h42_without_the_crd_the_operator_polls_each_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, stop = Server(groups={"groups": []}), asyncio.Event()
    watch = Watch(server, None)
    running = asyncio.create_task(watch.run(stop))
    await asyncio.sleep(10.5)
    assert (watch.served, watch.runs, server.asked) == (False, 0, 11)
    assert [record.getMessage() for record in caplog.records] == [
        f"CRD {names.PLURAL}.{names.GROUP} is not installed: apply crds/dijob.yaml of this version"
    ]
    server.answers["/apis"] = GROUPS
    await asyncio.sleep(1)
    assert watch.runs == 1
    await running
    assert stop.is_set()


async def test_h42_the_watch_restarts_when_a_deleted_crd_returns() -> None:
    server = Server()
    watch = Watch(server, NotFoundError(), None)
    await watch.run(asyncio.Event())
    assert (watch.runs, watch.jobs.gone, watch.served) == (2, 1, False)


async def test_an_error_of_the_watch_ends_the_operator_if_the_crd_exists() -> None:
    stop = asyncio.Event()
    with pytest.raises(RuntimeError, match="a bug"):
        await Watch(Server(), RuntimeError("a bug")).run(stop)
    assert stop.is_set()


async def test_a_stop_ends_the_wait_for_the_crd() -> None:
    watch, stop = Watch(Server(groups={"groups": []})), asyncio.Event()
    running = asyncio.create_task(watch.run(stop))
    await asyncio.sleep(3)
    stop.set()
    await asyncio.wait_for(running, 1)
    assert watch.runs == 0
