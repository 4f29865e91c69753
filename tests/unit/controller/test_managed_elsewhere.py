"""Jobs that another controller manages (spec.managedBy) in a simulated cluster."""

from typing import Any

import pytest
from dijob import names
from dijob.api.managers import other_manager
from dijob.core.options import Options
from samples.builders import job_body
from simulator.connection import Request
from simulator.kueue import LABEL
from simulator.objects import Target
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
# The status that the API server gives to a new job.
NEW: dict[str, Any] = {"observedGeneration": -1, "readyReplicas": 0, "restarts": 0}
# What MultiKueue copies from the cluster that runs the job.
COPIED: dict[str, Any] = {
    "phase": "Succeeded",
    "message": "all ranks exited 0",
    "observedGeneration": 7,
    "conditions": [
        {
            "type": "Finished",
            "status": "True",
            "reason": "Succeeded",
            "message": "all ranks exited 0",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


def managed(**spec: Any) -> dict[str, Any]:
    return job_body(**{"managedBy": MULTIKUEUE, **spec})


def events(world: World) -> list[Request]:
    """Return the requests to post events. World.writes() does not contain them."""
    calls = (call for call in world.line.calls if call.about("", "events"))
    return [call for call in calls if call.method != "GET"]


@pytest.mark.parametrize(
    ("body", "manager"),
    [
        pytest.param({}, "", id="no spec"),
        pytest.param({"spec": None}, "", id="a spec of another type"),
        pytest.param({"spec": {}}, "", id="absent"),
        pytest.param({"spec": {"managedBy": None}}, "", id="null"),
        pytest.param({"spec": {"managedBy": names.OWN_MANAGER}}, "", id="this operator"),
        pytest.param({"spec": {"managedBy": MULTIKUEUE}}, MULTIKUEUE, id="MultiKueue"),
        pytest.param({"spec": {"managedBy": 1}}, "", id="no string"),
    ],
)
def test_another_manager_is_recognized(body: dict[str, Any], manager: str) -> None:
    assert other_manager(body) == manager


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="a valid spec"),
        pytest.param({"suspend": True}, id="suspended"),
        pytest.param({"replicas": None}, id="an invalid spec"),
        pytest.param({"messageQueue": {"type": "redis"}, "service": "Always"}, id="all objects"),
        pytest.param({"ttlSecondsAfterFinished": 0}, id="no time to live"),
    ],
)
async def test_the_only_write_about_a_job_of_another_controller_is_an_event(
    spec: dict[str, Any],
) -> None:
    async with simulated(managed(**spec)) as world:
        await world.runs(700)
        assert world.writes() == []
        (event,) = events(world)
        assert event.body["reason"] == "ManagedElsewhere"
        assert event.body["message"].startswith(f"spec.managedBy is {MULTIKUEUE}: this operator")


async def test_the_defaults_of_the_crd_are_not_a_status() -> None:
    async with simulated({**managed(), "status": NEW}) as world:
        await world.runs(30)
        assert world.writes() == []
        assert len(events(world)) == 1


async def test_a_job_of_another_controller_gets_no_workload() -> None:
    body = managed()
    body["metadata"]["labels"] = LABEL
    async with simulated(body, options=Options(queues=True)) as world:
        await world.runs(60)
        assert world.writes() == []


async def test_the_operator_does_not_compete_for_the_status_of_another_controller() -> None:
    async with simulated(managed(ttlSecondsAfterFinished=0)) as world:
        await world.runs(5)
        for message in ("one", "two", "all ranks exited 0"):
            patch = {"status": {**COPIED, "message": message}}
            world.cluster.server.patch(Target("dijobs", "ns", "job", "status"), patch)
            await world.runs(60)
            assert world.cluster.read("dijobs", "job")["status"] == patch["status"]
        assert world.writes() == []
        assert len(events(world)) == 1


async def test_after_a_restart_a_job_with_a_status_gets_no_further_event() -> None:
    async with simulated({**managed(), "status": COPIED}) as world:
        await world.runs(30)
        await world.restart()
        await world.runs(30)
        assert (world.writes(), events(world)) == ([], [])


async def test_after_a_restart_a_job_without_a_status_counts_the_same_event() -> None:
    async with simulated(managed()) as world:
        await world.runs(30)
        await world.restart()
        await world.runs(30)
        assert world.writes() == []
        assert len(world.cluster.names_of("events")) == 1


async def test_a_failed_event_causes_no_other_write() -> None:
    async with simulated(managed(), starts=False) as world:
        world.refuse("POST", "events", 403)
        world.operator.start()
        await world.runs(60)
        assert world.writes() == []


async def test_a_deleted_job_of_another_controller_is_left_alone() -> None:
    body = managed()
    body["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["example.com/hold"],
    }
    async with simulated(body) as world:
        await world.runs(60)
        assert world.writes() == []


async def test_a_job_that_names_this_operator_runs() -> None:
    async with simulated(job_body(managedBy=names.OWN_MANAGER)) as world:
        await world.running()
        assert len(world.cluster.pods) == world.cluster.job().spec.desired
