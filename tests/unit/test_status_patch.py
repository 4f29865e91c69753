"""The patch of a status: a merge patch that leaves nothing behind."""

from typing import Any

import pytest
from dijob.api.status import Status
from dijob.shell.status_writer import _changes

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
