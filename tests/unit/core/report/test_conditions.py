"""The conditions of a job: each reason and its message."""

import pytest
from dijob.api.status import Status, format_time
from dijob.core.facts import job_age
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Observed
from samples.builders import (
    ALL,
    NOW,
    changed,
    conditions_of,
    job,
    later,
    listed,
    observed,
    plan,
    running,
    say,
    stored,
    view,
)
from samples.statuses import CRASH

REASONS: dict[str, tuple[Observed, str, bool, str, str]] = {
    "creating": (observed(view(0)), "PodsCreated", False, "Creating", "1 of 3 pods exist"),
    "created": (observed(*ALL), "PodsCreated", True, "AllCreated", "3 of 3"),
    "gathering": (
        observed(view(0, ip=""), view(1), view(2)),
        "AddressesReady",
        False,
        "Gathering",
        "rank 0",
    ),
    "missing an address": (
        observed(view(0, ip="", complaint="Unschedulable: 0/2"), view(1), view(2)),
        "AddressesReady",
        False,
        "AddressMissing",
        "rank 0: Unschedulable: 0/2",
    ),
    "an event explains it": (
        observed(view(0, ip=""), view(1), view(2), warnings={"uid-0": "FailedMount: x"}),
        "AddressesReady",
        False,
        "AddressMissing",
        "rank 0: FailedMount: x",
    ),
    "half handed out": (
        observed(listed(0), view(1), view(2)),
        "AddressesReady",
        False,
        "Publishing",
        "peer list revision 1",
    ),
    "published": (
        observed(*ALL),
        "AddressesReady",
        True,
        "Published",
        "3 addresses published as peer list revision 1",
    ),
    "waits for addresses": (
        observed(view(0)),
        "Running",
        False,
        "Starting",
        "waiting for addresses, see AddressesReady",
    ),
    "not all ready": (
        observed(listed(0, ready=False), listed(1), listed(2)),
        "Running",
        False,
        "Starting",
        "rank 0: its program is running but not Ready: it may still be starting",
    ),
    "ready": (observed(*ALL), "Running", True, "Begun", "all 3 ranks are running"),
    "all ranks restart": (
        observed(listed(1), listed(2)),
        "Running",
        False,
        "Renewing",
        "all ranks restart",
    ),
    "one rank restarts": (
        observed(listed(0), listed(1)),
        "PeersReady",
        False,
        "Renewing",
        "rank 2 restarts, and the other ranks keep running",
    ),
    "all ready": (observed(*ALL), "PeersReady", True, "AllRanksReady", "revision 1"),
    "not started": (
        observed(listed(0), listed(1), listed(2, ready=False)),
        "PeersReady",
        False,
        "Starting",
        "the job has not started, see Running",
    ),
    "crashed before all ran": (
        observed(
            listed(0), listed(1), listed(2, ready=False, last_end=CRASH, ended=format_time(NOW))
        ),
        "Running",
        False,
        "Blocked",
        "rank 2: its program exited 3: no GPU, and is restarting",
    ),
    "stale list": (
        observed(listed(0), listed(1)),
        "AddressesReady",
        False,
        "PodLost",
        "rank 2: its pod is gone",
    ),
}


@pytest.mark.parametrize(
    ("seen", "type_", "true", "reason", "words"), REASONS.values(), ids=REASONS
)
def test_each_condition_has_its_reason_and_message(
    seen: Observed, type_: str, true: bool, reason: str, words: str
) -> None:
    condition = say(seen)[type_]
    assert (condition.status, condition.reason) == (str(true), reason)
    assert words in condition.message


def test_a_resumed_job_does_not_report_that_it_is_suspended() -> None:
    died = {
        "listNumber": 1,
        "reason": "Suspended",
        "message": "the job was suspended",
        "time": format_time(NOW),
    }
    owner = job(status={"listNumber": 1, "lastRenewal": died, "resumeTime": format_time(NOW)})
    said = say(observed(view(0)), owner)
    assert said["AddressesReady"].reason == "Gathering"
    assert [c.type for c in said.values() if "suspend" in c.message] == []


def test_the_reason_stays_the_same_during_a_re_rendezvous() -> None:
    owner = running()
    owner = stored(owner, plan(owner, observed(*ALL[:2]), later(1)))
    gathering = plan(owner, observed(view(0, uid="n0"), view(1, uid="n1", ip="")), later(2))
    said = conditions_of(gathering)
    assert said["AddressesReady"].reason == "PodLost"
    assert (
        "rank 2: its pod is gone; rank 2 restarts, and the other ranks keep running. "
        in said["AddressesReady"].message
    )
    assert "its pod is being created" in said["AddressesReady"].message


def test_an_elastic_job_reports_which_ranks_it_waits_for_and_how_long() -> None:
    owner = job(minReplicas=2, maxReplicas=3, replicas=3, gatherSeconds=7)
    seen = observed(view(0), view(1, placed=NOW.isoformat()), view(2, ip=""))
    message = say(seen, owner)["AddressesReady"].message
    assert message == (
        "rank 2: its node is starting its pod "
        "(the job starts 7 s after ranks 0-1 have their addresses; other ranks can join later)"
    )


def test_a_job_of_fixed_size_reports_only_what_it_lacks() -> None:
    message = say(observed(view(0), view(1), view(2, ip="")))["AddressesReady"].message
    assert message == "rank 2: its node is starting its pod"


FIRST: dict[str, tuple[ContainerEnding | None, str]] = {
    "exit code": (ContainerEnding(3, 0, "Error", "no such file"), "rank 1 exited 3: no such file"),
    "no message": (
        ContainerEnding(137, 9, "OOMKilled", ""),
        "rank 1 ran out of memory (OOMKilled)",
    ),
    "no container": (None, "rank 1 failed, but its node has no record of how"),
}


@pytest.mark.parametrize(("last_end", "words"), FIRST.values(), ids=FIRST)
def test_a_failed_job_names_its_first_failure_and_its_log(
    last_end: ContainerEnding | None, words: str
) -> None:
    pods = (listed(0), listed(1, failures=4, ready=False, last_end=last_end), listed(2))
    said = say(observed(*pods), running())
    assert (said["Failed"].status, said["Failed"].reason) == ("True", "BackoffLimitExceeded")
    assert "4 failures, backoffLimit is 3" in said["Failed"].message
    assert words in said["Failed"].message
    assert "`kubectl logs job-1`" in said["Failed"].message
    assert (said["Running"].status, said["Running"].reason) == ("False", "Finished")


def test_a_succeeded_job_reports_its_success() -> None:
    decided = plan(running(), observed(*(changed(pod, succeeded=True) for pod in ALL)), later(60))
    said = conditions_of(decided)
    assert (said["Succeeded"].reason, said["Succeeded"].message) == (
        "AllRanksSucceeded",
        "all 3 ranks exited 0",
    )
    assert decided.status.completion_time == "2026-05-04T12:01:00Z"


@pytest.mark.parametrize(
    ("start", "age"),
    [("2026-05-04T11:59:00Z", 60.0), (None, 0.0), ("", 0.0), ("yesterday", 0.0)],
    ids=str,
)
def test_the_age_of_a_job(start: str | None, age: float) -> None:
    assert job_age(Status(start_time=start), NOW) == age
