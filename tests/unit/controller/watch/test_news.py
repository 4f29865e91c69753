"""When a job is queued after a change of its children."""

from collections.abc import Iterable
from typing import Any

import pytest
from dijob.controller.cache.children import Children
from dijob.controller.queue.workqueue import BURST_SECONDS, PROGRESS_SECONDS, Key, WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.news import News
from dijob.core.observed.reports import LauncherState
from dijob.core.observed.views import Pod
from dijob.core.options import Options
from fakes.fake_api import FakeApi
from samples.builders import OWNER, STARTED, job_body, view


class Delays(WorkQueue):
    """Records the seconds after which the job is queued."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def add(self, key: Key, background: bool = False) -> None:
        self.delays.append(0.0)

    def add_after(self, key: Key, seconds: float) -> None:
        self.delays.append(seconds)


class Line:
    """A launcher's connection, which gets no list here."""

    def answer(self, said: object) -> bool:
        return True

    def close(self) -> None:
        pass


class Lab:
    """The news about the job of the builders."""

    def __init__(self, channel: str = "operator:8082") -> None:
        children = Children.of(())
        for store in children.stores.values():
            for reflector in store.reflectors:
                reflector.synced.set()
        self.reconciler = Reconciler(FakeApi().api(), children, Options(channel=channel))
        self.reconciler.jobs.put(job_body(), shown=True)
        self.reconciler.launchers.serve()
        self.pods, self.queue = children.pods, Delays()
        self.news = News(self.reconciler, self.queue, children)
        self.news.connect()

    def show(self, *pods: Pod) -> float:
        """Store the newest views of some pods. Return the delay after the last of them."""
        for pod in pods:
            self.pods.put(pod)
            self.news.changed(OWNER)
        return self.queue.delays[-1]


def starting(rank: int, **fields: Any) -> Pod:
    return view(rank, **{"ip": "", "version": "1", **fields})


def running(rank: int, **fields: Any) -> Pod:
    return view(rank, **{"phase": "Running", "version": "2", "started": STARTED, **fields})


CASES: dict[str, tuple[Iterable[Pod], float]] = {
    "a pod that has just been created": ((starting(0),), PROGRESS_SECONDS),
    "one of two has an address": ((starting(0), starting(1), running(0)), PROGRESS_SECONDS),
    "the last one has an address": ((starting(0), starting(1), running(0), running(1)), 0.0),
    "a pod of a running job": ((running(0), running(1)), BURST_SECONDS),
    "one does not start for a reason": (
        (running(0), starting(1, complaint="Unschedulable")),
        BURST_SECONDS,
    ),
    "one has failed": ((running(0), running(1, phase="Failed")), BURST_SECONDS),
    "one has an address, its launcher no connection": (
        (running(0), running(1, channel_key="key")),
        PROGRESS_SECONDS,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_when_a_job_is_queued(case: str) -> None:
    pods, seconds = CASES[case]
    assert Lab().show(*pods) == seconds


def test_without_a_channel_no_launcher_is_awaited() -> None:
    assert Lab(channel="").show(running(0, channel_key="key")) == BURST_SECONDS


def test_the_last_launcher_that_connects_queues_the_job_at_once() -> None:
    lab = Lab()
    pods = [running(rank, channel_key="key") for rank in range(2)]
    lab.show(*pods)
    for pod, seconds in zip(pods, (PROGRESS_SECONDS, 0.0), strict=True):
        lab.reconciler.launchers.receive(pod, Line(), LauncherState.WAITING, pod.ip, {})
        assert lab.queue.delays[-1] == seconds


def test_a_job_that_is_gone_is_not_queued() -> None:
    lab = Lab()
    lab.show(starting(0))
    lab.reconciler.forget(job_body()["metadata"]["uid"])
    before = list(lab.queue.delays)
    lab.news.changed(OWNER)
    assert lab.queue.delays == before
