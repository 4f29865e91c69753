"""The merge patch of a status also removes fields that are gone."""

from dataclasses import replace
from typing import Any

import pytest
from dijob import names
from dijob.api.status import Status
from dijob.controller.write.status_writer import _status_changes
from samples.builders import job_body
from simulator.objects import Target
from simulator.simulated import simulated

Body = dict[str, Any]


@pytest.mark.parametrize(
    ("was", "becomes", "patch"),
    [
        pytest.param({"listNumber": 1}, {"listNumber": 1}, {}, id="no change"),
        pytest.param({"listNumber": 1}, {"listNumber": 2}, {"listNumber": 2}, id="a changed value"),
        pytest.param({"startTime": "t"}, {}, {"startTime": None}, id="a removed field"),
        pytest.param(
            {"taskStatus": {"a": {"Pending": 2}}},
            {"taskStatus": {"a": {"Pending": 1, "Running": 1}}},
            {"taskStatus": {"a": {"Pending": 1, "Running": 1}}},
            id="an added phase",
        ),
        pytest.param(
            {"taskStatus": {"a": {"Pending": 1, "Running": 1}, "b": {"Running": 1}}},
            {"taskStatus": {"a": {"Running": 2}, "b": {"Running": 1}}},
            {"taskStatus": {"a": {"Pending": None, "Running": 2}}},
            id="a phase without pods",
        ),
        pytest.param(
            {"taskStatus": {"a": {"Running": 1}, "b": {"Running": 1}}},
            {"taskStatus": {"a": {"Running": 1}}},
            {"taskStatus": {"b": None}},
            id="a removed task",
        ),
        pytest.param(
            {"taskStatus": {"a": {"Running": 1}}},
            {},
            {"taskStatus": {"a": None}},
            id="the last task",
        ),
    ],
)
def test_a_patch_has_only_changed_and_removed_fields(was: Body, becomes: Body, patch: Body) -> None:
    assert _status_changes(Status.model_validate(was), Status.model_validate(becomes)) == patch


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("left", "stays"),
    [({}, False), ([{"time": "t", "data": {}}], True)],
    ids=["the object of DI-orchestrator", "what jobs have posted"],
)
async def test_an_object_in_place_of_a_list_is_removed_with_the_first_status(
    left: object, stays: bool
) -> None:
    """The apiserver rejects any status with it (observed on Kubernetes 1.30)."""
    async with simulated() as world:
        world.cluster.apply(job_body())
        job = Target(names.PLURAL, "ns", "job")
        world.cluster.server.patch(replace(job, sub="status"), {"status": {names.REPORTED: left}})
        await world.running()
        assert (names.REPORTED in world.cluster.server.get(job)["status"]) is stays
