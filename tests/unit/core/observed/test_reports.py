"""How the report of a launcher changes the view of its pod."""

from dataclasses import replace
from typing import Any

import pytest
from dijob.core.addresses import NO_LIST, AddressList, ListCopy
from dijob.core.observed.reports import LauncherReport, LauncherState, with_report
from dijob.core.observed.views import Pod, Unready
from samples.builders import LIST, STARTED, view

WAITING, BEGUN, READY, ENDED = LauncherState
SENT = ListCopy(AddressList(2, LIST), renew_from=2)
AT = "2026-05-04T12:00:00Z"


def pod(**fields: Any) -> Pod:
    """Return a pod with a channel, whose main container runs according to its kubelet."""
    return view(1, **{"channel_key": "key", "started": STARTED, "phase": "Running", **fields})


def report(state: LauncherState, ip: str = "10.0.0.1") -> LauncherReport:
    return LauncherReport(state, ip, "" if state is WAITING else AT)


def seen(
    before: Pod,
    said: LauncherReport | None,
    copy: ListCopy = ListCopy(),  # noqa: B008 (frozen)
    *,
    assumed: bool = False,
) -> Pod:
    return with_report(before, said, copy, assumed=assumed)


def test_a_pod_with_a_gate_is_not_changed() -> None:
    before = pod(channel_key="")
    assert seen(before, report(READY), SENT) is before


@pytest.mark.parametrize("said", [None, report(WAITING)], ids=["no report", "it waits"])
def test_a_program_has_not_started_before_its_launcher_reports_it(
    said: LauncherReport | None,
) -> None:
    after = seen(pod(ready=True), said)
    assert (after.has_started, after.containers.gated, after.ready) == (False, True, False)
    # The join window begins when the image was on the node.
    assert after.containers.gate_started == STARTED
    assert after.has_arrived


def test_a_launcher_that_was_there_before_the_operator_is_assumed_to_run_its_program() -> None:
    after = seen(pod(ready=True), None, assumed=True)
    assert (after.has_started, after.containers.gated, after.ready) == (True, False, True)


def test_a_container_that_was_restarted_has_had_a_list() -> None:
    after = seen(pod(restarts=1, ended=STARTED), report(WAITING))
    assert (after.has_started, after.containers.gated) == (True, False)


def test_a_start_is_known_before_the_kubelet_reports_it() -> None:
    after = seen(pod(started="", phase="Pending", ip="", unstarted=True), report(READY))
    assert (after.ip, after.containers.started, after.ready) == ("10.0.0.1", AT, True)
    assert after.has_arrived


def test_the_address_that_the_kubelet_reports_counts() -> None:
    assert seen(pod(ip="10.0.0.9"), report(BEGUN)).ip == "10.0.0.9"


@pytest.mark.parametrize(
    ("fields", "said", "ready"),
    [
        ({}, READY, True),
        ({}, BEGUN, False),
        ({"ready": True}, BEGUN, True),
        ({}, ENDED, False),
        ({"ready": True}, ENDED, True),
        ({"deleting": True}, READY, False),
        ({"has_others": True}, READY, False),
        ({"sidecars": True}, READY, False),
        ({"unready": Unready("a gate")}, READY, False),
        ({"phase": "Failed"}, READY, False),
        ({"unready_since": "2026-05-04T11:30:00Z"}, READY, False),
        ({"unready_since": "2026-05-04T10:59:00Z"}, READY, True),
        ({"sandbox": False}, READY, False),
    ],
    ids=[
        "ready",
        "started",
        "ready only for its kubelet",
        "ended",
        "ended, which its kubelet has not reported yet",
        "deleted",
        "another container",
        "a sidecar",
        "a readiness gate",
        "failed",
        "it was Ready before",
        "it was not Ready before its container started",
        "its sandbox died",
    ],
)
def test_when_a_pod_is_ready(fields: dict[str, Any], said: LauncherState, ready: bool) -> None:
    assert seen(pod(**fields), report(said)).ready is ready


def test_a_launcher_that_lost_its_connection_may_have_lost_its_node() -> None:
    assert not seen(pod(), replace(report(READY), connected=False)).ready


def test_a_launcher_has_the_list_that_was_sent() -> None:
    after = seen(pod(ends_counted=3), report(BEGUN), SENT)
    assert after.copy == replace(SENT, ends_counted=3)


def test_a_list_in_the_annotations_counts_because_it_may_be_forged() -> None:
    forged = seen(pod(number=9, ips="10.6.6.6"), report(BEGUN), SENT)
    assert forged.copy.address_list == AddressList(9, "10.6.6.6")
    assert seen(pod(), report(BEGUN)).copy.address_list == NO_LIST
