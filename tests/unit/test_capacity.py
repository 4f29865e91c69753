"""Not enough room: when a job gives its pods back, what it says, when it tries again."""

import random
from dataclasses import replace
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.status import GivenBack, Renewal, Status, timestamp
from dijob.core.actions import CreatePod, DeletePod, PublishAddresses
from dijob.core.decide.plan import Plan
from dijob.core.members import compact
from dijob.core.membership import capacity
from dijob.core.membership.gathering import Gathering
from dijob.core.observed.refusals import of_creation
from dijob.core.observed.views import Creation, Observed, Pod, Refusal, Refused
from unit.builders import (
    NOW,
    Body,
    conditions_of,
    gang,
    job,
    job_body,
    later,
    listed,
    observed,
    plan,
    stored,
    view,
    world_of,
)
from unit.simulated import World, simulated
from unit.simulator import Cluster, Nodes

BORN = NOW.isoformat()
HOME: dict[str, Any] = {"created": BORN}
HOMELESS: dict[str, Any] = {
    "node": "",
    "ip": "",
    "complaint": "Unschedulable: 0/2 nodes",
    "created": BORN,
}
FULL = observed(view(0, **HOME), view(1, **HOME), view(2, **HOMELESS))


def quota(seconds: float, why: Refused = Refused.FORBIDDEN, rank: int = 2) -> dict[str, Refusal]:
    """A rank's pod has been refused since then."""
    return {f"pod/job-{rank}": Refusal(why, "exceeded quota: pods", NOW, since=later(seconds))}


def held(*ranks: int, **known: Any) -> Observed:
    return observed(*(view(rank, **HOME) for rank in ranks), **known)


UNPLACED = observed(*(view(r, **HOMELESS | {"complaint": ""}) for r in (0, 1)), refusals=quota(0))
CASES: dict[str, tuple[Observed, dict[str, Any], float, bool]] = {
    "a rank finds no node": (FULL, {}, 11, True),
    "not for long": (FULL, {}, 9, False),
    "nobody holds anything": (observed(*(view(r, **HOMELESS) for r in range(3))), {}, 99, False),
    "no word from the scheduler": (
        observed(view(0), view(2, **HOMELESS | {"complaint": ""})),
        {},
        99,
        False,
    ),
    "its pod is going": (observed(view(0), view(2, **HOMELESS, deleting=True)), {}, 99, False),
    "the job has started": (
        observed(listed(0), listed(1), view(2, **HOMELESS)),
        {"list_number": 1},
        99,
        False,
    ),
    "only a finished rank has a node": (
        observed(view(0, **HOMELESS), view(1, **HOME, phase="Succeeded")),
        {"succeeded": frozenset({1})},
        99,
        False,
    ),
    "a renewed one of which nobody runs": (
        FULL,
        {"list_number": 1, "last_renewal": Renewal(list_number=1)},
        11,
        True,
    ),
    "one above the minimum": (FULL, {"minimum": 2}, 99, False),
    "a rank is refused": (held(0, 1, refusals=quota(0)), {}, 11, True),
    "not for long enough": (held(0, 1, refusals=quota(2)), {}, 11, False),
    "by a spec that is wrong": (held(0, 1, refusals=quota(0, Refused.REJECTED)), {}, 99, False),
    "by an apiserver that is away": (
        held(0, 1, refusals=quota(0, Refused.UNAVAILABLE)),
        {},
        99,
        False,
    ),
    "a pod without a node fills a quota too": (UNPLACED, {}, 11, True),
    "all are refused": (held(refusals=quota(0) | quota(0, rank=0)), {}, 99, False),
    "it was refused once, and is there": (held(0, 1, 2, refusals=quota(0)), {}, 99, False),
    "one above the minimum is refused": (held(0, 1, refusals=quota(0)), {"minimum": 2}, 99, False),
    "refused, and the others run": (
        observed(listed(0), listed(1), refusals=quota(0)),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="2")},
        99,
        False,
    ),
    "refused again after the last time": (
        held(0, 1, refusals=quota(-300)),
        {"given_back": GivenBack(count=1, until=timestamp(later(5)))},
        11,
        False,
    ),
    "refused again for long": (
        held(0, 1, refusals=quota(-300)),
        {"given_back": GivenBack(count=1, until=timestamp(later(5)))},
        16,
        True,
    ),
    "refused before it was resumed": (
        held(0, 1, refusals=quota(-300)),
        {"resume_time": timestamp(later(5))},
        11,
        False,
    ),
    "it waits already": (
        FULL,
        {"given_back": GivenBack(count=1, until=timestamp(later(200)))},
        99,
        False,
    ),
}


@pytest.mark.parametrize(("seen", "status", "seconds", "gives"), CASES.values(), ids=CASES)
def test_a_job_gives_its_pods_back_when(
    seen: Observed, status: dict[str, Any], seconds: float, gives: bool
) -> None:
    words = dict(status)
    done, minimum = words.pop("succeeded", frozenset()), words.pop("minimum", 3)
    stored = Status(**words)
    world = world_of(
        gang(minimum=minimum),
        seen,
        stored.model_copy(update={"succeeded_ranks": compact(done)}),
        NOW,
    )
    given = capacity.due_give_back(Gathering(world, seen, 10, later(seconds)), stored, 10)
    assert (given is not None) == gives
    if given:
        assert (
            "rank 2: exceeded quota: pods" if seen.refusals else "rank 2: Unschedulable: 0/2 nodes"
        ) in given.message


def test_the_pause_grows_and_differs_between_jobs() -> None:
    pauses = [[capacity._pause(uid, count) for count in range(8)] for uid in ("a", "b")]
    assert pauses[0] != pauses[1]
    for jobs in pauses:
        assert all(
            15 * 2 ** min(n, 4) <= pause <= min(45 * 2**n, 900) for n, pause in enumerate(jobs)
        ), jobs


def step(owner: DIJob, seen: Observed, seconds: float) -> tuple[Any, DIJob]:
    decided = plan(owner, seen, later(seconds))
    return decided, stored(owner, decided)


def test_written_down_then_given_back_then_tried_again() -> None:
    owner = job(scheduleTimeoutSeconds=10)
    decided, owner = step(owner, FULL, 11)
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    said = conditions_of(decided)["AddressesReady"]
    assert (said.status, said.reason) == ("False", "NoRoom")
    assert "tries again at 2026-05-04T12:00" in said.message
    assert [event.reason for event in decided.events] == ["NoRoom"]
    decided, owner = step(owner, FULL, 12)
    assert deleted(decided) == {"job-0", "job-1"}
    left = observed(view(2, **HOMELESS))
    decided, owner = step(owner, left, 13)
    assert decided.actions == ()
    assert 0 < decided.requeue_after < 46
    again = 13 + decided.requeue_after
    decided, owner = step(owner, left, again)
    assert [type(action) for action in decided.actions] == [CreatePod] * 2
    decided, owner = step(owner, FULL, again + 9)
    assert decided.status.given_back == owner.status.given_back
    assert deleted(decided) == set()


def deleted(decided: Plan) -> set[str]:
    return {action.name for action in decided.actions if isinstance(action, DeletePod)}


def test_a_full_quota_leaves_no_pod_also_none_without_a_node() -> None:
    owner = job(scheduleTimeoutSeconds=10)
    _, owner = step(owner, UNPLACED, 11)
    decided, _ = step(owner, UNPLACED, 12)
    assert deleted(decided) == {"job-0", "job-1"}


def test_a_kept_pod_that_finds_a_node_ends_the_pause() -> None:
    """C19: the autoscaler's node has come."""
    owner = job(scheduleTimeoutSeconds=10)
    _, owner = step(owner, FULL, 11)
    found = observed(view(2, **HOME))
    decided, owner = step(owner, found, 14)
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    decided, _ = step(owner, found, 14)
    assert [type(action) for action in decided.actions] == [CreatePod] * 2


def test_a_kept_pod_that_takes_the_room_which_another_job_waits_for_goes_too() -> None:
    """C19: else two jobs would wait for each other again, with other ranks."""
    owner = job(scheduleTimeoutSeconds=10)
    _, owner = step(owner, replace(FULL, contended=True), 11)
    decided, owner = step(owner, observed(view(2, **HOME)), 14)
    assert deleted(decided) == {"job-2"}
    decided, _ = step(owner, observed(view(2, **HOMELESS)), 14)
    assert deleted(decided) == set()


class AnyOrder(Nodes):
    """The scheduler takes the pods that wait in any order."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster)
        self._chance = random.Random(seed)

    def work(self) -> None:
        pods = list(self._cluster.pods.items())
        self._chance.shuffle(pods)
        self._cluster.pods = dict(pods)
        super().work()


async def all_succeed(world: World, rooms: int, seed: int, *jobs: str) -> set[str]:
    """Jobs of four on so many places begin, and succeed. Gives those that gave room back."""
    world.nodes = AnyOrder(world.cluster, seed)
    world.nodes.room = rooms
    for name in jobs:
        body = job_body(replicas=4, scheduleTimeoutSeconds=30, ttlSecondsAfterFinished=0)
        body["metadata"] |= {"name": name, "uid": f"uid-of-{name}"}
        world.cluster.apply(body)
    left, gave = set(jobs), set[str]()

    def ended() -> bool:
        for name in tuple(left):
            if world.cluster.gone(name):
                left.discard(name)
            elif world.cluster.job(name).status.given_back:
                gave.add(name)
            elif world.cluster.job(name).status.phase == "Running":
                for pod in world.cluster.pods.values():
                    if pod.name.startswith(name) and pod.main.state == "running":
                        pod.end(pod.main, 0)
        return not left

    await world.until(ended, 900)
    return gave


@pytest.mark.virtual_time
@pytest.mark.parametrize("jobs", [("left", "right"), ("left", "middle", "right")])
@pytest.mark.parametrize("rooms", [4, 5, 6])
async def test_jobs_that_each_hold_a_part_of_the_room_get_through(
    rooms: int, jobs: tuple[str, ...]
) -> None:
    """C19: pods without a node stay, and take what another job has given back, or its own."""
    gave = set[str]()
    for seed in range(3):
        async with simulated() as world:
            gave |= await all_succeed(world, rooms, seed, *jobs)
    assert gave


@pytest.mark.virtual_time
@pytest.mark.parametrize("elastic", [{}, {"minReplicas": 2, "maxReplicas": 4}])
async def test_a_pod_without_a_node_stays_until_its_node_comes(elastic: dict[str, int]) -> None:
    """C19: a cluster autoscaler adds nodes for the pods that it sees."""
    size: Body = {"replicas": 3, "scheduleTimeoutSeconds": 30, **elastic}
    body = job_body(**size)
    async with simulated() as world:
        world.nodes.room = 2 if not elastic else 1
        world.cluster.apply(body)
        await world.runs(20)
        waiting = {uid for uid, pod in world.cluster.pods.items() if pod.homeless}
        held = set(world.cluster.pods) - waiting
        assert len(waiting) == (1 if not elastic else 2)
        await world.until(lambda: not held & set(world.cluster.pods), 30)
        assert waiting <= set(world.cluster.pods)
        await world.runs(20)
        assert any(pod.homeless for pod in world.cluster.pods.values())
        assert waiting <= set(world.cluster.pods)
        world.nodes.room = 3
        await world.until(lambda: world.phase == "Running", 60)


def test_a_started_job_never_gives_back_what_it_has() -> None:
    pods: list[Pod] = [listed(0), listed(1), view(2, **HOMELESS)]
    owner = job(status={"listNumber": 1}, scheduleTimeoutSeconds=10)
    decided, _ = step(owner, observed(*pods), 600)
    assert not any(isinstance(action, DeletePod) for action in decided.actions)


class Tenant:
    """A job in a namespace of which others hold pods too: what its plans ask for comes true, as far
    as the quota lets.

    `Quota` below counts the pods of all tenants.
    """

    def __init__(self, name: str, quota: "Quota") -> None:
        body = job_body(replicas=4, scheduleTimeoutSeconds=10, service="Auto")
        body["metadata"] |= {"name": name, "uid": name}
        self.job, self.quota = parse_job(body), quota
        self.pods: dict[int, Pod] = {}
        self.refusals: dict[str, Refusal] = {}
        self.creations: dict[str, Creation] = {}
        self.begun = False
        quota.tenants.append(self)

    def passes(self, seconds: float) -> None:
        seen = Observed(self.pods, refusals=dict(self.refusals), creations=dict(self.creations))
        decided = plan(self.job, seen, later(seconds))
        self.job = stored(self.job, decided)
        for action in decided.actions:
            match action:
                case CreatePod(member=member):
                    self._create(member.rank, f"pod/{member.name}", seconds)
                case DeletePod(name=name):
                    self.pods = {rank: pod for rank, pod in self.pods.items() if pod.name != name}
                case PublishAddresses():
                    self.begun = True

    def _create(self, rank: int, key: str, seconds: float) -> None:
        if self.quota.used >= self.quota.pods:
            self.refusals[key] = of_creation(
                403, "exceeded quota", self.refusals.get(key), later(seconds)
            )
            return
        self.refusals.pop(key, None)
        name, born = key.removeprefix("pod/"), later(seconds).isoformat()
        self.creations[name] = Creation(1, later(seconds))
        self.pods[rank] = view(
            rank, self.job, name=name, uid=f"{name} {seconds}", created=born, ip=f"10.1.0.{rank}"
        )


class Quota:
    """Of pods, in a namespace."""

    def __init__(self, pods: int) -> None:
        self.pods = pods
        self.tenants: list[Tenant] = []

    @property
    def used(self) -> int:
        return sum(len(tenant.pods) for tenant in self.tenants)


def test_of_two_jobs_of_four_under_a_quota_of_six_pods_one_begins() -> None:
    quota = Quota(6)
    one, other = Tenant("one", quota), Tenant("other", quota)
    # Half of each: neither can begin.
    for tenant in (one, other):
        quota.pods = 3 if tenant is one else 6
        tenant.passes(0)
    assert (len(one.pods), len(other.pods)) == (3, 3)
    for second in range(1, 120):
        for tenant in (one, other):
            if not tenant.begun:
                tenant.passes(second)
        if one.begun or other.begun:
            break
    assert one.begun or other.begun
    given = [tenant.job.status.given_back for tenant in (one, other) if not tenant.begun]
    assert [each and "exceeded quota" in each.message for each in given] == [True]


def test_a_refusal_remembers_since_when() -> None:
    first = of_creation(403, "no", None, NOW)
    again = of_creation(403, "no", first, later(1))
    assert (again.since, again.attempts) == (NOW, 2)
    assert of_creation(503, "no", again, later(9)).since == later(9)
