"""The audit compares the known DIJobs with a list from the apiserver."""

import asyncio
from dataclasses import dataclass, field

import pytest
from dijob.controller.cache.children import Children
from dijob.controller.cache.jobs import WentBackError
from dijob.controller.main import _until_it_went_back
from dijob.controller.queue.workqueue import WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.audit import Audit
from dijob.core.options import Options
from dijob.process.clock import Clock
from fakes.fake_api import Body, FakeApi


def job(uid: str, version: int) -> Body:
    meta = {"namespace": "n", "name": uid, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta}


@dataclass
class Lab:
    """An audit of jobs with known versions, without pauses."""

    api: FakeApi = field(default_factory=FakeApi)

    def __post_init__(self) -> None:
        self.reconciler = Reconciler(self.api.api(), Children.of(()), Options())

    async def listed(self, *items: Body) -> None:
        """Run one audit with this list."""
        self.api.lists = [{"items": list(items)}]
        queue = WorkQueue(self.reconciler.reconcile)
        audit = Audit(self.api.api(), self.reconciler, queue, (), Clock())
        with pytest.raises(IndexError):  # there is no second list
            await audit.run()


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    async def at_once(seconds: float) -> None:
        """Replace the pause between two audits."""

    monkeypatch.setattr(asyncio, "sleep", at_once)
    return Lab()


async def test_a_list_with_an_older_version_of_a_job_raises(
    lab: Lab,
) -> None:
    lab.reconciler.jobs.put(job("a", 12))
    with pytest.raises(WentBackError, match="n/a: resource version went back from 12 to 7"):
        await lab.listed(job("a", 7))


async def test_a_list_with_the_same_or_a_newer_version_of_a_job_does_not_raise(lab: Lab) -> None:
    lab.reconciler.jobs.put(job("a", 12))
    lab.reconciler.jobs.put(job("b", 12))
    await lab.listed(job("a", 12), job("b", 13))
    assert lab.reconciler.jobs.uids().keys() == {"a", "b"}


async def test_an_operator_whose_etcd_was_restored_exits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        raise WentBackError("pods", "7", 12)

    stop = asyncio.Event()
    await _until_it_went_back(work(), stop)
    assert stop.is_set()
    assert "pods: resource version went back from 12 to 7; exiting to restart" in caplog.text
