"""Which container failed, its last output, and where its log is (C6, C13, C29)."""

from typing import Any

import pytest
from dijob import names
from dijob.api.status import Charge, format_time
from dijob.core.membership import failures
from dijob.core.observed import parse
from dijob.core.observed.views import Pod
from dijob.core.plan import make_plan
from samples.builders import (
    NOW,
    Body,
    conditions_of,
    job,
    listed,
    observed,
    pod_body,
    running,
    then,
    view,
)
from samples.statuses import RUNNING, TERMINATED, main_status, terminated

STAGE = {"name": "stage", "image": "x"}
SIDECAR = {"name": "metrics", "image": "x"}
OWNER = job(pod={"initContainers": [STAGE]})
DOWN = terminated(3, message="ValueError: no data")


def seen(**status: Any) -> Pod:
    return parse.parse_pod(pod_body(owner=OWNER, phase="Running", **status))


def failed(pod: Pod) -> str:
    owner = running(backoffLimit=0)
    decided, owner = then(owner, observed(pod, listed(1), listed(2)))
    return conditions_of(decided)["Failed"].message


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses"])
def test_another_container_that_failed_is_named_with_its_last_output(kind: str) -> None:
    """C6: "container stage exited 1" did not say why."""
    pod = seen(**{kind: [main_status(name="stage", state=DOWN)]})
    end = pod.containers.last_end
    assert end is not None
    assert (end.container, end.words) == ("stage", "exited 3: ValueError: no data")
    assert pod.complaint == "container stage exited 3: ValueError: no data"
    first = failures.first_of(pod, Charge(rank=0), NOW)
    assert (first.container, first.message) == ("stage", "ValueError: no data")
    assert failed(view(0, phase="Running", failures=1, last_end=end)) == (
        "1 failure, backoffLimit is 0 (see `kubectl logs job-0 -c stage`; ignore the pod's STATUS);"
        " the first failure: rank 0: container stage exited 3: ValueError: no data"
    )


def test_a_failed_main_container_takes_precedence_over_others() -> None:
    both = [main_status(state=terminated(1)), main_status(name="metrics", state=DOWN)]
    end = seen(containerStatuses=both).containers.last_end
    assert end is not None
    assert (end.container, end.exit_code, end.program) == ("", 1, "its program")


def test_the_main_container_is_named_if_there_are_others() -> None:
    """C29: kubectl may select a sidecar by default."""
    beside = job(pod={"containers": [SIDECAR, OWNER.pod_sets[0].main_container]})
    pod = parse.parse_pod(pod_body(owner=beside, phase="Running"))
    assert pod.made.has_others
    assert not seen().made.has_others
    crashed: dict[str, Any] = {"failures": 1, "last_end": TERMINATED, "main": names.MAIN_CONTAINER}
    assert "`kubectl logs job-0 -c di-container`" in failed(listed(0, has_others=True, **crashed))
    assert "`kubectl logs job-0`" in failed(listed(0, **crashed))


AGAIN: Body = {"state": RUNNING, "lastState": terminated(1)}


@pytest.mark.parametrize(
    ("status", "launched", "said"),
    [
        ({"state": terminated(1)}, True, "see `kubectl logs job-0`"),
        (AGAIN, True, "see `kubectl logs job-0`"),
        (AGAIN, False, "`kubectl logs job-0` shows only the container's last run"),
        ({"state": {"waiting": {}}, "lastState": terminated(1)}, False, "see `kubectl logs job-0`"),
    ],
    ids=["ended", "its launcher waits", "runs again without one", "waits to run again"],
)
def test_a_log_is_promised_only_if_it_shows_the_failure(
    status: Body, launched: bool, said: str
) -> None:
    """X2: `kubectl logs --previous` shows nothing for a pod that has ended."""
    pod = seen(containerStatuses=[main_status(restarts=1, **status)])
    first = {"rank": 0, "pod": "job-0", "exitCode": 1, "time": format_time(NOW)}
    owner = running(backoffLimit=0, status={"listNumber": 1, "firstFailure": first})
    last: dict[str, Any] = {
        "failures": 1,
        "last_end": pod.containers.last_end,
        "confirmable": launched,
    }
    message = conditions_of(then(owner, observed(listed(0, **last), listed(1), listed(2)))[0])
    assert said in message["Failed"].message


@pytest.mark.parametrize(
    ("own", "pod", "now", "limit"),
    [
        ("2Gi", None, None, "the container's memory limit is 2Gi"),
        ("2Gi", None, "3Gi", "the container's memory limit is 3Gi"),
        (None, "4Gi", None, "the pod's memory limit is 4Gi"),
        (None, None, None, "the container has no memory limit, and its node ran out of memory"),
    ],
    ids=["own", "resized", "of the pod", "none"],
)
def test_out_of_memory_names_the_limit(
    own: str | None, pod: str | None, now: str | None, limit: str
) -> None:
    """C13."""

    def limited(memory: str | None) -> Body:
        return {"resources": {"limits": {"memory": memory}}} if memory else {}

    body = pod_body(phase="Running")
    body["spec"] |= limited(pod)
    body["spec"]["containers"][0] |= limited(own)
    ended = terminated(137, reason="OOMKilled", message="step 7")
    body["status"]["containerStatuses"] = [{**main_status(state=ended), **limited(now)}]
    found = parse.parse_pod(body)
    assert found.complaint == f"container di-container ran out of memory (OOMKilled: {limit})"
    first = failures.first_of(found, Charge(rank=0), NOW)
    assert (first.cause, first.message) == (limit, "step 7")
    assert failed(listed(0, failures=1, last_end=found.containers.last_end)).endswith(
        f"; the first failure: rank 0 ran out of memory (OOMKilled: {limit})"
    )


def test_every_container_of_the_template_leaves_its_last_output() -> None:
    own = {"name": "own", "image": "x", "terminationMessagePolicy": "File"}
    body = pod_body(owner=job(pod={"initContainers": [STAGE, own]}))
    policies = {
        one["name"]: one["terminationMessagePolicy"]
        for one in (*body["spec"]["initContainers"], *body["spec"]["containers"])
    }
    assert policies.pop("own") == "File"
    assert set(policies.values()) == {"FallbackToLogsOnError"}


def test_the_message_of_a_rule_names_the_container() -> None:
    end = seen(containerStatuses=[main_status(name="metrics", state=DOWN)]).containers.last_end
    owner = running(failurePolicy={"rules": [{"action": "FailJob"}]})
    decided = make_plan(
        owner, observed(listed(0, failures=1, last_end=end), listed(1), listed(2)), NOW
    )
    assert conditions_of(decided)["Failed"].message.startswith(
        "rank 0: container metrics exited 3: ValueError: no data, and failurePolicy.rules[0] says"
    )
