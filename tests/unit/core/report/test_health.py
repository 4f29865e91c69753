"""The health of a job in each phase, as kstatus computes it (C28)."""

from collections.abc import Callable
from typing import Any

import pytest
from dijob.api.status import Condition, Status
from dijob.core.facts import Fact
from dijob.core.report.summary import events
from dijob.reasons import AddressesReady, Failed, Reconciling, Running, Stalled, Succeeded
from samples.health import HEALTH_SAMPLES, RUNS, HealthSample
from samples.summaries import having

Body = dict[str, Any]


def has(kind: str, *states: str) -> Callable[[Body], bool]:
    return lambda body: any(
        one["type"] == kind and one["status"] in states
        for one in body["status"].get("conditions", ())
    )


def unseen(body: Body) -> bool:
    return bool(body["status"]["observedGeneration"] != body["metadata"]["generation"])


# The rules of kstatus for a kind that it does not know (pkg/kstatus/README.md and
# status/generic.go). The first that applies gives the status. tests/apiserver/test_gitops.py
# compares them with kstatus itself.
RULES: list[tuple[Callable[[Body], bool], str]] = [
    (lambda body: "deletionTimestamp" in body["metadata"], "Terminating"),
    (unseen, "InProgress"),
    (has("Reconciling", "True"), "InProgress"),
    (has("Stalled", "True"), "Failed"),
    (has("Ready", "True"), "Current"),
    (has("Ready", "False", "Unknown"), "InProgress"),
    (lambda body: True, "Current"),
]
samples = pytest.mark.parametrize("sample", HEALTH_SAMPLES.values(), ids=HEALTH_SAMPLES)


@samples
def test_kstatus_sees_the_health_of_a_job(sample: HealthSample) -> None:
    body = sample.body()
    assert next(status for rule, status in RULES if rule(body)) == sample.kstatus


@samples
def test_the_health_causes_no_event_and_is_at_most_one_condition(sample: HealthSample) -> None:
    status = having(*sample.facts)
    found = [one for one in status.conditions if one.type in ("Reconciling", "Stalled")]
    assert len(found) <= 1
    assert all(one.status == "True" for one in found)
    assert not [one for one in events(Status(), status) if one.reason in ("Reconciling", "Stalled")]


def health(status: Status) -> Condition | None:
    return next((one for one in status.conditions if one.type in ("Reconciling", "Stalled")), None)


def test_a_healthy_job_has_no_condition_about_its_health() -> None:
    waits = having(Fact(AddressesReady.Gathering, "rank 1 has no address"))
    found = health(waits)
    assert found is not None
    assert (found.type, found.reason) == ("Reconciling", Reconciling.Starting.name)
    assert found.message == waits.message == "rank 1 has no address"
    runs = having(*RUNS, before=waits, seconds=9)
    assert health(runs) is None
    assert health(having(Fact(Succeeded.AllRanksSucceeded), before=runs)) is None


def test_a_failed_job_is_stalled_since_its_failure_and_with_its_message() -> None:
    failed = having(Fact(Running.Finished), Fact(Failed.FailurePolicy, "rank 1 exited 3"))
    later = having(Fact(Running.Finished), before=failed, seconds=60)
    found, end = health(later), next(one for one in later.conditions if one.type == "Failed")
    assert found is not None
    assert (found.type, found.reason) == ("Stalled", Stalled.Failed.name)
    assert found.message == "rank 1 exited 3"
    assert found.last_transition_time == end.last_transition_time


def test_the_time_of_a_wait_is_when_it_began() -> None:
    first = having(*RUNS)
    waits = having(Fact(Running.Renewing, "a"), before=first, seconds=10)
    still = having(Fact(Running.Renewing, "b"), before=waits, seconds=20)
    times = [found.last_transition_time for each in (waits, still) if (found := health(each))]
    assert len(times) == 2
    assert times[0] == times[1] != first.start_time
