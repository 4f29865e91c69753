"""X2: after a failure the launcher in the pod waits until the operator has counted it. So nothing
starts after the last failure that a job allows, and the log of the failed run is kept.
"""

import pytest
from dijob import names
from dijob.api.status import format_time
from dijob.core.actions import ConfirmEnds, EndPod
from dijob.core.observed.views import Pod
from dijob.core.plan import Plan
from samples.builders import NOW, Body, job_body, later, listed, observed, running, then
from samples.statuses import TERMINATED
from simulator.apiserver import ApiServer
from simulator.objects import Target
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

AGAIN: Body = {
    "failures": 1,
    "restarts": 1,
    "started": format_time(later(1)),
    "ended": format_time(NOW),
    "last_end": TERMINATED,
    "confirmable": True,
}


def confirmed(decided: Plan) -> list[ConfirmEnds]:
    return [action for action in decided.actions if isinstance(action, ConfirmEnds)]


def test_an_end_is_confirmed_once_it_is_stored() -> None:
    seen = observed(listed(0), listed(1, **AGAIN), listed(2))
    first, owner = then(running(), seen)
    assert (confirmed(first), first.write_now) == ([], True)
    second, _ = then(owner, seen)
    assert confirmed(second) == [ConfirmEnds("job-1", "uid-1", 1)]


@pytest.mark.parametrize(
    ("pod", "ends"),
    [
        (listed(1, **AGAIN, ends_counted=1), None),
        (listed(1, **{**AGAIN, "restarts": 3, "failures": 3}, ends_counted=2), 3),
        (listed(1, **{**AGAIN, "restarts": 0, "started": ""}), 1),
        (listed(1, **{**AGAIN, "confirmable": False}), None),
        (listed(1, **AGAIN, deleting=True), None),
        (listed(1, **AGAIN, sandbox=False), None),
    ],
    ids=["told", "the third", "before it starts", "no launcher", "deleted", "no sandbox"],
)
def test_which_ends_are_confirmed(pod: Pod, ends: int | None) -> None:
    seen = observed(listed(0), pod, listed(2))
    _, owner = then(running(backoffLimit=9), seen)
    wanted = [] if ends is None else [ConfirmEnds("job-1", "uid-1", ends)]
    assert confirmed(then(owner, seen)[0]) == wanted


def test_a_failed_job_confirms_nothing_and_keeps_every_failed_pod() -> None:
    """Five ranks fail at once, and the first failure ends the job. All their logs are kept."""
    at_once = observed(*(listed(rank, **AGAIN) for rank in range(2)), listed(2))
    decided, owner = then(running(backoffLimit=0), at_once)
    assert decided.status.phase == "Failed"
    later_one = observed(*(listed(rank, **AGAIN) for rank in range(3)))
    after, _ = then(owner, later_one, 1)
    assert after.actions == tuple(EndPod(f"job-{rank}", f"uid-{rank}") for rank in range(3))


async def crash(world: World) -> int:
    """Crash rank 1. Return how many writes of its pod follow."""
    before = len(world.writes("PATCH", "pods"))
    pod = world.cluster.pod("job-1")
    pod.end(pod.main, 1)
    await world.settle(5)
    return len(world.writes("PATCH", "pods")) - before


async def test_a_crashed_program_restarts_with_one_write() -> None:
    async with simulated(job_body(backoffLimit=3)) as world:
        await world.running()
        assert await crash(world) == 1
        pod = world.cluster.pod("job-1")
        assert pod.process is not None
        assert pod.body["metadata"]["annotations"][names.ANNOTATION_ENDS] == "1"


async def test_no_program_starts_after_the_last_failure() -> None:
    async with simulated(job_body(backoffLimit=0)) as world:
        await world.running()
        pod = world.cluster.pod("job-1")
        pod.end(pod.main, 1)
        world.nodes.work()  # The kubelet is faster than the operator.
        assert (pod.main.state, pod.main.restarts, pod.process) == ("running", 1, None)
        await world.until(lambda: pod.done)
        assert (world.phase, pod.process) == ("Failed", None)


async def test_a_webhook_that_removes_the_annotation_causes_no_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in H13. The launcher starts the program without it after 30 s."""
    store = ApiServer.patch

    def mutated(server: ApiServer, target: Target, patch: Body) -> Body:
        annotations = (patch.get("metadata") or {}).get("annotations") or {}
        kept = {key: value for key, value in annotations.items() if key != names.ANNOTATION_ENDS}
        if annotations:
            patch = {**patch, "metadata": {**patch["metadata"], "annotations": kept}}
        return store(server, target, patch)

    monkeypatch.setattr(ApiServer, "patch", mutated)
    async with simulated(job_body(backoffLimit=3)) as world:
        await world.running()
        writes = await crash(world)
        await world.runs(40)
        assert world.cluster.pod("job-1").process is not None
        assert writes < 5
