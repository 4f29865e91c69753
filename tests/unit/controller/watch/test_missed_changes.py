"""The watch of DIJobs misses changes: the audit reads them, and the liveness probe fails, even if
responses to other requests have shown the same changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from dijob.controller.cache.children import Children
from dijob.controller.health import SILENCE_SECONDS
from dijob.controller.queue.workqueue import Key, WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.audit import Audit
from dijob.core.options import Options
from dijob.kube.kinds import JOBS
from dijob.process.clock import Clock
from fakes.fake_api import Body, FakeApi

MINUTE = 60.0


def job(uid: str, version: int) -> Body:
    meta = {"namespace": "n", "name": uid, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta}


@dataclass
class Minutes(Clock):
    seconds: float = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class Queue(WorkQueue):
    """Records the keys that are added."""

    def __init__(self) -> None:
        self.told: list[Key] = []

    def add(self, key: Key, background: bool = False) -> None:
        self.told.append(key)


@dataclass
class Api(FakeApi):
    """Has these jobs by path."""

    there: dict[str, Body] = field(default_factory=dict)

    async def get(self, path: str, **query: str) -> Body:
        return self.there.get(path) or {"items": list(self.there.values())}


class Lab:
    """An audit with its apiserver."""

    def __init__(self) -> None:
        self.api, self.clock, self.queue = Api(), Minutes(), Queue()
        self.reconciler = Reconciler(self.api.api(), Children.of(()), Options())
        self.audit = Audit(self.api.api(), self.reconciler, self.queue, (), self.clock)

    def shows(self, *bodies: Body) -> None:
        """Deliver jobs by the watch."""
        for body in bodies:
            self.reconciler.jobs.put(body, shown=True)

    async def look(self, *bodies: Body) -> float:
        """Audit these jobs, a minute after the last audit. Return for how many seconds the watch
        has been behind.
        """
        self.clock.seconds += MINUTE
        self.api.there = {JOBS.path("n", body["metadata"]["name"]): body for body in bodies}
        await self.audit._compare()
        return 0.0 if self.audit.behind is None else self.clock.seconds - self.audit.behind


async def test_a_watch_that_delivers_everything_is_not_behind() -> None:
    lab = Lab()
    for version in range(1, 9):
        lab.shows(job("a", version))
        assert await lab.look(job("a", version)) == 0.0
    assert not lab.queue.told


async def test_a_change_between_list_and_event_is_not_late() -> None:
    """The watch delivers it a moment later."""
    lab = Lab()
    for version in range(1, 9):
        assert await lab.look(job("a", version)) == 0.0
        lab.shows(job("a", version))


# The list of each audit, by the number of audits before.
DEAD: dict[str, Callable[[int], list[Body]]] = {
    "one idle job": lambda minute: [job("a", 5)],
    "one job that is edited each minute": lambda minute: [job("a", 5 + minute)],
    "a new job every five minutes": lambda minute: [
        job(f"j{n}", 5) for n in range(1 + minute // 5)
    ],
}


@pytest.mark.parametrize("listed", DEAD.values(), ids=DEAD)
async def test_a_watch_that_delivers_nothing_stays_behind(
    listed: Callable[[int], list[Body]],
) -> None:
    lab = Lab()
    seconds = [await lab.look(*listed(minute)) for minute in range(10)]
    assert seconds == [0.0] + [MINUTE * minute for minute in range(1, 10)]
    assert seconds[5] > SILENCE_SECONDS


async def test_a_watch_that_stops_later_is_behind_too() -> None:
    lab = Lab()
    lab.shows(job("a", 5))
    assert [await lab.look(job("a", 5)) for _ in range(3)] == [0.0] * 3
    assert [await lab.look(job("a", 6)) for _ in range(3)] == [0.0, MINUTE, 2 * MINUTE]


async def test_a_response_to_our_own_write_does_not_count_as_delivered() -> None:
    lab = Lab()
    lab.shows(job("a", 5))
    lab.reconciler.jobs.put(job("a", 6))
    assert [await lab.look(job("a", 6)) for _ in range(3)] == [0.0, MINUTE, 2 * MINUTE]
    assert not lab.queue.told  # the version is known already


async def test_a_watch_that_catches_up_is_no_longer_behind() -> None:
    lab = Lab()
    assert [await lab.look(job("a", 5 + minute)) for minute in range(4)][-1] == 3 * MINUTE
    lab.shows(job("a", 5))
    assert await lab.look(job("a", 9)) == 0.0


async def test_a_newer_version_is_stored() -> None:
    lab = Lab()
    lab.shows(job("a", 5))
    for version in (6, 7):
        await lab.look(job("a", version))
    assert lab.reconciler.jobs.versions() == {"a": 7}
    assert lab.queue.told == [("n", "a")]


async def test_a_deleted_job_does_not_keep_the_watch_behind() -> None:
    lab = Lab()
    for _ in range(3):
        await lab.look(job("a", 5))
    assert await lab.look() == 0.0
