"""A job is deleted and created again at once. The names of its pods are taken until the old pods
have ended.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.controller.cache.children import Children
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.memory import JobMemory
from dijob.controller.write.actor import Actor
from dijob.core.actions import CreatePod
from dijob.core.members import gang_of
from dijob.core.observed.ranked import by_rank
from dijob.core.observed.views import Observed
from dijob.core.options import Options
from dijob.core.plan import make_plan
from dijob.kube.api import RequestError
from dijob.process.clock import Clock
from fakes.fake_api import FakeApi
from samples.builders import NOW, OWNER, Body, job

GRACE = 30.0
NEVER = 1e9


@dataclass
class OldPods(FakeApi):
    """The old pod of each rank exists for some seconds."""

    end: Callable[[int], float] = lambda rank: GRACE
    now: datetime = NOW
    made: set[int] = field(default_factory=set)

    def _there(self, path: str) -> bool:
        return self.end(_rank(path)) > (self.now - NOW).total_seconds()

    async def create(self, path: str, body: Body, *, whole: bool = False) -> Body:
        name = body["metadata"]["name"]
        self.calls.append(("POST", name, {}))
        await asyncio.sleep(0)
        if body["kind"] == "Pod" and self._there(name):
            raise RequestError(409, "AlreadyExists", f'pods "{name}" already exists')
        if body["kind"] == "Pod":
            self.made.add(_rank(name))
        stamps = {"uid": name, "resourceVersion": "1", "creationTimestamp": self.now.isoformat()}
        return {**body, "metadata": {**body["metadata"], **stamps}}

    async def get(self, path: str, **_: str) -> Body:
        self.calls.append(("GET", path, {}))
        owner = {"kind": names.KIND, "name": "job", "uid": "of-the-old-job", "controller": True}
        meta = {"name": path.rpartition("/")[2], "uid": "old", "ownerReferences": [owner]}
        return {"kind": "Pod", "metadata": {**meta, "deletionTimestamp": NOW.isoformat()}}


@dataclass
class Told(Clock):
    """A clock that also sets the time of the old pods."""

    api: OldPods

    def now(self) -> datetime:
        return self.api.now


def _rank(path: str) -> int:
    return int(path.rpartition("-")[2])


async def recreate(owner: DIJob, api: OldPods) -> dict[int, float]:
    """Reconcile the new job until the old pods are long gone. Return when the pod of each rank was
    created.
    """
    children, memory, created = Children.of(()), JobMemory(), dict[int, float]()
    hands = Actor(api.api(), children, LauncherDelivery(Options()), Told(api))
    while (passed := (api.now - NOW).total_seconds()) <= GRACE + 30:
        pods, _ = by_rank(children.pods.of(OWNER), gang_of(owner))
        seen = Observed(pods, rejections=dict(memory.rejections), creations=dict(memory.creations))
        decided = make_plan(owner, seen, api.now)
        await hands.carry_out(
            owner, tuple(a for a in decided.actions if isinstance(a, CreatePod)), memory
        )
        created |= dict.fromkeys(api.made - created.keys(), passed)
        api.now += timedelta(seconds=0.2 if decided.actions else decided.requeue_after)
    return created


@pytest.mark.parametrize(
    ("size", "end", "most", "late"),
    [
        pytest.param(300, lambda rank: GRACE, 200, 5.0, id="all end at the same time"),
        pytest.param(300, lambda rank: 0.0, 0, 0.0, id="no old pods"),
        pytest.param(
            150, lambda rank: GRACE if rank else NEVER, 200, 8.0, id="the first hangs with its node"
        ),
        pytest.param(
            150, lambda rank: GRACE if rank % 2 else NEVER, 600, 12.0, id="every other one hangs"
        ),
        pytest.param(
            150, lambda rank: GRACE if rank >= 75 else NEVER, 600, 12.0, id="the lower half hangs"
        ),
        pytest.param(
            150, lambda rank: GRACE if rank < 75 else NEVER, 600, 12.0, id="the upper half hangs"
        ),
        pytest.param(150, lambda rank: GRACE * rank / 150, 600, 20.0, id="one after the other"),
        pytest.param(4, lambda rank: 3.0 * rank, 40, 8.0, id="a small job"),
    ],
)
async def test_the_names_of_old_pods_are_tried_with_few_requests(
    size: int, end: Callable[[int], float], most: int, late: float
) -> None:
    """`most` is the number of failed creations; to try each name every second would cost 9,000.
    `late` is how many seconds after its name is free the last pod is created.
    """
    api = OldPods(end=end)
    created = await recreate(job(replicas=size, service="Auto"), api)
    free = {rank for rank in range(size) if end(rank) < NEVER}
    assert created.keys() == free
    assert max(created[rank] - end(rank) for rank in free) <= late
    assert len(api.calls) - len(free) <= most
