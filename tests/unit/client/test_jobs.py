"""How the client interprets a status: outcome, messages, and the end of a wait."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from dijob.client import ApiError, Job, NotFound, TimedOut
from dijob.client.errors import Refused, api_error
from dijob.client.ranks import RankPod
from dijob.client.reading import newest_last
from dijob.client.restarting import as_written, mounted_config_maps, owned_by, rename_for_dry_run
from dijob.client.waiting import Goal, wait_for_outcome
from manifests import dijob

Body = dict[str, Any]
FIRST = {"rank": 2, "pod": "test-2", "node": "n1", "exitCode": 3, "reason": "Error"}


def seen(*true: str, **status: Any) -> Job:
    """Return a job with these conditions, each with a message."""
    body = dijob("test", {"image": "x"})
    body["metadata"] |= {"namespace": "ns", "uid": "u"}
    conditions = [{"type": t, "status": "True", "message": f"{t} it is"} for t in true]
    return Job({**body, "status": {**status, "conditions": conditions}})


@pytest.mark.parametrize(
    ("job", "said"),
    [
        pytest.param(seen(phase="Running"), "None", id="running"),
        pytest.param(
            seen("Finished", "Succeeded", phase="Succeeded", firstFailure=FIRST),
            "test: Succeeded: Succeeded it is",
            id="succeeded after a failure",
        ),
        pytest.param(
            seen("Finished", "Failed", phase="Failed", firstFailure=FIRST),
            "test: Failed: Failed it is. First failure: rank 2 (test-2) on node n1, exit code 3,"
            " Error",
            id="failed",
        ),
        pytest.param(
            seen("Finished", "Failed", firstFailure={**FIRST, "signal": 9, "message": "a\nb"}),
            "test: Failed: Failed it is. First failure: rank 2 (test-2) on node n1, signal 9,"
            " Error: a b",
            id="killed",
        ),
    ],
)
def test_outcome(job: Job, said: str) -> None:
    assert str(job.outcome) == said


def test_the_first_failure_is_not_repeated() -> None:
    body = seen("Finished", "Failed", phase="Failed", firstFailure=FIRST).body
    body["status"]["conditions"][1]["message"] = "the first failure: rank 2 exited 3"
    assert str(Job(body).outcome) == "test: Failed: the first failure: rank 2 exited 3"


def test_events_of_an_earlier_job_with_the_same_name_are_excluded() -> None:
    def event(uid: str, time: str) -> Body:
        return {"involvedObject": {"uid": uid}, "lastTimestamp": time}

    found = newest_last(seen(), [event("u", "2"), event("old", "1"), event("u", "1")])
    assert found == [event("u", "1"), event("u", "2")]


def test_a_job_without_a_status_is_pending() -> None:
    assert (seen().phase, seen().message) == (
        "Pending",
        "the operator has not processed this job yet",
    )


def test_a_job_of_another_controller_without_a_status_names_the_controller() -> None:
    body = seen().body
    body = {**body, "spec": {**body.get("spec", {}), "managedBy": "example.com/other"}}
    said = Job(body).message
    assert said == "example.com/other manages this job, and has not written its status yet"


def test_progress_is_read_from_the_status() -> None:
    assert seen().progress is None
    progress = seen(progress={"line": "iter 3", "iteration": 3}).progress
    assert progress is not None
    assert (progress.line, progress.iteration) == ("iter 3", 3)


async def changes(*jobs: Job | None) -> AsyncGenerator[Job | None]:
    for job in jobs:
        yield job


@pytest.mark.parametrize(
    ("goal", "jobs", "phase", "told"),
    [
        pytest.param(
            "finished", [seen("Running"), seen("Finished", "Failed")], "Failed", 2, id="end"
        ),
        pytest.param("running", [seen(), seen("Running")], "Running", 2, id="run"),
        pytest.param("running", [seen("Finished", "Failed")], "Failed", 1, id="end before run"),
        pytest.param("finished", [seen(), None], "Deleted", 1, id="deleted"),
    ],
)
async def test_the_outcome_of_a_wait(
    goal: Goal, jobs: list[Job | None], phase: str, told: int
) -> None:
    states: list[Job] = []
    outcome = await wait_for_outcome(changes(*jobs), "test", goal, None, states.append)
    assert (outcome.phase, len(states)) == (phase, told)


async def test_a_wait_that_times_out_reports_the_phase() -> None:
    async def stuck() -> AsyncGenerator[Job | None]:
        yield seen(phase="Starting", message="rank 1 has no node")
        await asyncio.Event().wait()

    with pytest.raises(
        TimedOut, match=r"not finished after 0.01 s; its phase is Starting: rank 1 has no"
    ):
        await wait_for_outcome(stuck(), "test", "finished", 0.01)


@pytest.mark.parametrize(
    ("status", "answer", "kind", "words"),
    [
        pytest.param(404, {"message": "no such"}, NotFound, "no such", id="not found"),
        pytest.param(404, "404 page not found", NotFound, "install the operator", id="no kind"),
        pytest.param(422, {"message": "spec: no"}, Refused, "spec: no", id="a rule"),
        pytest.param(409, {"message": "conflict with x"}, Refused, "--force-conflicts", id="owner"),
        pytest.param(401, {}, Refused, "log in again", id="credentials"),
        pytest.param(502, "gone", ApiError, "failed with 502 Bad Gateway: gone", id="5xx"),
    ],
)
def test_errors_have_the_apiservers_message(
    status: int, answer: Any, kind: type[Exception], words: str
) -> None:
    error = api_error(status, answer, "GET /x")
    assert isinstance(error, kind)
    assert words in str(error)
    assert error.status == status


def pod(state: Body, *, gate: Body | None = None, **meta: Any) -> RankPod:
    labels = {"diengine.opendilab.org/rank": "3", "diengine/task-name": "learner"}
    inits = [{"name": "dijob-gate", "state": gate}] if gate else []
    main = {"name": "di-container", "state": state, "restartCount": 2}
    return RankPod(
        {
            "metadata": {"name": "test-3", "labels": labels, **meta},
            "spec": {"containers": [{"name": "side"}, {"name": "di-container"}]},
            "status": {
                "phase": "Pending",
                "initContainerStatuses": inits,
                "containerStatuses": [main],
            },
        },
        3,
    )


WAITING = {"waiting": {"reason": "PodInitializing"}}


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        pytest.param(pod(WAITING), "Pending", id="pending"),
        pytest.param(pod(WAITING, gate={"running": {}}), "Gate", id="gate"),
        pytest.param(pod({"waiting": {"reason": "CrashLoopBackOff"}}), "CrashLoopBackOff", id="x"),
        pytest.param(pod({"running": {}}), "Running", id="running"),
        pytest.param(
            pod({"terminated": {"reason": "Error", "exitCode": 3}}), "Error (3)", id="ended"
        ),
        pytest.param(pod({"terminated": {"exitCode": 85}}), "Renewing", id="renewal"),
        pytest.param(pod({"running": {}}, deletionTimestamp="x"), "Terminating", id="deleted"),
    ],
)
def test_the_state_of_a_pod(shown: RankPod, state: str) -> None:
    assert shown.state == state
    assert (shown.rank, shown.task, shown.container) == (3, "learner", "di-container")


def test_a_recreated_job_has_the_written_fields_and_its_config_maps() -> None:
    body = dijob("test", {"image": "x"}, {"volumes": [{"configMap": {"name": "code"}}]})
    added = {"uid": "u", "resourceVersion": "3", "managedFields": [], "namespace": "ns"}
    stored = {**body, "metadata": body["metadata"] | added, "status": {"phase": "Failed"}}
    written = as_written(stored)
    assert written == {**body, "metadata": {"name": "test", "namespace": "ns"}}
    tried = rename_for_dry_run(written)["metadata"]["name"]
    assert (tried != "test", len(tried)) == (True, 4)
    assert list(mounted_config_maps(written["spec"])) == ["code"]
    made = owned_by({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}, stored)
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
