"""The patch of a status: a merge patch that leaves nothing behind."""

from dataclasses import replace
from typing import Any

import pytest
from dijob import names
from dijob.api.status import Status
from dijob.shell.status_writer import _changes
from unit.builders import job_body
from unit.objects import Target
from unit.simulated import simulated

Body = dict[str, Any]


@pytest.mark.parametrize(
    ("was", "becomes", "patch"),
    [
        pytest.param({"listNumber": 1}, {"listNumber": 1}, {}, id="nothing"),
        pytest.param({"listNumber": 1}, {"listNumber": 2}, {"listNumber": 2}, id="a value"),
        pytest.param({"startTime": "t"}, {}, {"startTime": None}, id="a field that is gone"),
        pytest.param(
            {"taskStatus": {"a": {"Pending": 2}}},
            {"taskStatus": {"a": {"Pending": 1, "Running": 1}}},
            {"taskStatus": {"a": {"Pending": 1, "Running": 1}}},
            id="a phase more",
        ),
        pytest.param(
            {"taskStatus": {"a": {"Pending": 1, "Running": 1}, "b": {"Running": 1}}},
            {"taskStatus": {"a": {"Running": 2}, "b": {"Running": 1}}},
            {"taskStatus": {"a": {"Pending": None, "Running": 2}}},
            id="a phase that nobody is in any more",
        ),
        pytest.param(
            {"taskStatus": {"a": {"Running": 1}, "b": {"Running": 1}}},
            {"taskStatus": {"a": {"Running": 1}}},
            {"taskStatus": {"b": None}},
            id="a task that is gone",
        ),
        pytest.param(
            {"taskStatus": {"a": {"Running": 1}}},
            {},
            {"taskStatus": {"a": None}},
            id="the last task",
        ),
    ],
)
def test_only_what_differs_is_written_and_what_is_gone_is_named(
    was: Body, becomes: Body, patch: Body
) -> None:
    assert _changes(Status.model_validate(was), Status.model_validate(becomes)) == patch


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("left", "stays"),
    [({}, False), ([{"time": "t", "data": {}}], True)],
    ids=["the object of DI-orchestrator", "what jobs have posted"],
)
async def test_what_is_no_list_in_the_place_of_one_goes_with_the_first_status(
    left: object, stays: bool
) -> None:
    """The apiserver refuses each status with it (seen on Kubernetes 1.30)."""
    async with simulated() as world:
        world.cluster.apply(job_body())
        job = Target(names.PLURAL, "ns", "job")
        world.cluster.server.patch(replace(job, sub="status"), {"status": {names.REPORTED: left}})
        await world.running()
        assert (names.REPORTED in world.cluster.server.get(job)["status"]) is stays
