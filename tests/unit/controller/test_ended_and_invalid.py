"""A newer operator still cleans up an ended job whose spec it rejects: its pods according to
cleanPodPolicy, and the job after its time to live.
"""

import pytest
from dijob import names
from dijob.api.parse import Parsed
from dijob.api.problems import SpecError
from dijob.names import CleanPodPolicy
from samples.builders import Body, container, job_body
from simulator.objects import Target
from simulator.simulated import World, simulated

FAILED: Body = {
    "phase": "Failed",
    "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}],
}
RESERVED = {"containers": [container(env=[{"name": "DI_LIST_NUMBER", "value": "1"}])]}
# What a release may reject although an older one has accepted it.
REFUSED: dict[str, Body] = {
    "by a check": {"template": {"spec": RESERVED}},
    "by the model": {"networkPolicy": {"ingress": [{"form": []}]}},
    "a removed field": {"gone": 1},
    "an invalid template": {"template": {"spec": [], "containers": 3}},
}
refused = pytest.mark.parametrize("edit", REFUSED.values(), ids=REFUSED.keys())


def body_of(edit: Body, status: Body) -> Body:
    made = job_body(status=status, ttlSecondsAfterFinished=60, cleanPodPolicy="All")
    return {**made, "spec": {**made["spec"], **edit}}


@refused
def test_invalid_fields_of_an_ended_job_count_as_absent(edit: Body) -> None:
    spec = Parsed.of(body_of(edit, FAILED)).job.spec
    assert (spec.ttl_seconds_after_finished, spec.clean_pod_policy) == (60, CleanPodPolicy.ALL)
    assert spec.replicas == 3


@refused
@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="new"),
        pytest.param({"phase": "Running"}, id="running"),
        pytest.param({"phase": "Failed"}, id="ended by another operator"),
        pytest.param(
            {"conditions": [{"type": "Failed", "status": "False"}]}, id="that has not failed"
        ),
    ],
)
def test_an_invalid_spec_of_another_job_is_rejected(edit: Body, status: Body) -> None:
    with pytest.raises(SpecError):
        Parsed.of(body_of(edit, status))


def test_the_spec_is_parsed_leniently_once_the_job_has_ended() -> None:
    """A reconciliation parses a spec again only if it has changed."""
    before = Parsed.of(body_of({}, {}))
    after = body_of(REFUSED["by a check"], FAILED)
    after["metadata"]["resourceVersion"] = "2"
    assert Parsed.of(after, before).job.status.ended


@refused
@pytest.mark.virtual_time
async def test_its_pods_and_the_job_itself_are_deleted_on_time(edit: Body) -> None:
    async with simulated(job_body(ttlSecondsAfterFinished=60)) as world:
        await ended(world)
        edited(world, {**edit, "cleanPodPolicy": "All"})
        await world.restart()
        await world.until(lambda: not world.cluster.names_of("pods"), 30)
        assert not world.cluster.gone()
        await world.until(world.cluster.gone, 90)


@refused
@pytest.mark.virtual_time
async def test_without_a_time_to_live_the_job_stays(edit: Body) -> None:
    async with simulated(job_body()) as world:
        await ended(world)
        before = world.cluster.read(names.PLURAL, "job")
        edited(world, edit)
        await world.restart()
        await world.runs(600)
        status = world.cluster.read(names.PLURAL, "job")["status"]
        assert (status["phase"], status["desired"]) == ("Succeeded", 3)
        assert status["completionTime"] == before["status"]["completionTime"]
        assert len(world.cluster.names_of("pods")) == 3


async def ended(world: World) -> None:
    await world.running()
    for pod in list(world.cluster.pods.values()):
        pod.end(pod.main, 0)
    await world.until(lambda: world.phase == "Succeeded")
    await world.settle(5)


def edited(world: World, edit: Body) -> None:
    """Replace fields completely, as in a spec that an older release has accepted."""
    target = Target(names.PLURAL, "ns", "job")
    body = world.cluster.server.get(target)
    world.cluster.server.replace(target, {**body, "spec": {**body["spec"], **edit}})
