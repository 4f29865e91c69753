"""What the condition GangScheduled reports about a job in a queue of Kueue."""

from dataclasses import replace
from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.core.decide.growth import Obstacle
from dijob.core.observed.queue_views import Assignment, LocalQueue, QueueView, Workload
from dijob.core.observed.views import ApiRejection, EngineView, RejectionCause
from dijob.core.render.scheduling.pod_set_names import MAIN
from dijob.names import Engine
from samples.builders import NOW, conditions_of, job_body, later, observed, plan

REJECTED = ApiRejection(RejectionCause.FORBIDDEN, "workloads are forbidden: no", later(7))
ADMITTED = ("QuotaReserved", "Admitted")


def queued_job(queue: str = "gpus") -> DIJob:
    made = job_body(scheduling={"engine": "Kueue"})
    made["metadata"]["labels"] = {names.KUEUE_QUEUE: queue} if queue else {}
    return parse_job(made)


def workload(*types: str, **fields: Any) -> Workload:
    """Return a Workload whose conditions of these types are True."""
    assigned = {MAIN: Assignment(2)} if "Admitted" in types else {}
    made: dict[str, Any] = {
        "name": "dijob-job-1",
        "uid": "w",
        "owner": "",
        "queue": "gpus",
        "counts": {MAIN: 3},
        "assigned": assigned,
        "conditions": tuple({"type": type_, "status": "True"} for type_ in types),
        **fields,
    }
    return Workload(**made)


def report(seen: QueueView, owner: DIJob | None = None, **rejections: ApiRejection) -> str:
    """Return reason and message of the condition GangScheduled."""
    view = observed(
        scheduling=EngineView(engine=Engine.KUEUE, known=True),
        queue=seen,
        rejections={key.replace("_", " "): one for key, one in rejections.items()},
    )
    found = conditions_of(plan(owner or queued_job(), view, NOW))["GangScheduled"]
    return f"{found.reason}: {found.message}"


KNOWN = QueueView(enabled=True, known=True)
RUNS = workload(*ADMITTED)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param(QueueView(), "NotServed: the job has the engine Kueue, but", id="no Kueue"),
        pytest.param(replace(KNOWN, served=False), "NotServed: ", id="its API is not served"),
        pytest.param(
            replace(KNOWN, unread="resourceflavors are forbidden"),
            "GroupRefused: resourceflavors are forbidden",
            id="an object cannot be read",
        ),
        pytest.param(
            replace(KNOWN, workload=workload(), absent=True),
            "QueueMissing: the LocalQueue gpus does not exist in namespace ns",
            id="the LocalQueue does not exist",
        ),
        pytest.param(
            replace(KNOWN, workload=workload(), local=LocalQueue(inactive="it is on hold")),
            "QueueMissing: the LocalQueue gpus is not active: it is on hold",
            id="the LocalQueue is not active",
        ),
        pytest.param(
            replace(KNOWN, workload=workload("QuotaReserved")),
            "Queued: queued in gpus: quota is reserved; admission checks",
            id="admission checks are missing",
        ),
        pytest.param(
            replace(KNOWN, workload=workload(active=False)),
            "Deactivated: the Workload dijob-job-1 is deactivated (its spec.active is false)",
            id="deactivated",
        ),
        pytest.param(
            replace(KNOWN, workload=RUNS),
            "Admitted: admitted by the queue gpus",
            id="admitted",
        ),
    ],
)
def test_a_job_with_a_queue_reports_what_it_waits_for(seen: QueueView, words: str) -> None:
    assert report(seen).startswith(words)


def test_a_job_without_the_label_of_a_queue_says_which_one_is_missing() -> None:
    assert report(KNOWN, queued_job("")).startswith("QueueMissing: spec.scheduling.engine ")


def test_a_workload_that_cannot_be_deleted_is_reported() -> None:
    found = report(replace(KNOWN, workload=RUNS), delete_workload=REJECTED)
    assert found == "GroupRefused: workloads are forbidden: no"


GROWS = replace(KNOWN, workload=RUNS, held_back=1, slices=True)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param(GROWS, "the operator is about to request quota", id="nothing is requested"),
        pytest.param(replace(GROWS, slices=None), "it is not known yet", id="support is not known"),
        pytest.param(replace(GROWS, slices=False), Obstacle.NOT_SUPPORTED, id="not supported"),
        pytest.param(
            replace(GROWS, workload=workload(*ADMITTED, queue="old")),
            Obstacle.QUEUE,
            id="another queue",
        ),
        pytest.param(
            replace(GROWS, workload=workload(*ADMITTED, assigned={MAIN: Assignment(2, (), True)})),
            Obstacle.TOPOLOGY,
            id="Kueue chooses the nodes",
        ),
        pytest.param(
            replace(GROWS, workload=workload(*ADMITTED, counts={"other": 3})),
            Obstacle.POD_SETS,
            id="other pod sets",
        ),
        pytest.param(
            replace(GROWS, growth=workload(name="larger", uid="x", active=False)),
            "the Workload larger is deactivated",
            id="the larger Workload is deactivated",
        ),
        pytest.param(
            replace(GROWS, growth=workload("QuotaReserved", name="larger", uid="x")),
            "quota is reserved; admission checks",
            id="the larger Workload waits for checks",
        ),
        pytest.param(
            replace(GROWS, growth=workload(name="larger", uid="x")),
            "not evaluated yet",
            id="the larger Workload is new",
        ),
    ],
)
def test_ranks_that_are_not_admitted_say_what_they_wait_for(seen: QueueView, words: str) -> None:
    found = report(seen)
    assert "has admitted 3 ranks, and 1 more is waiting: " in found
    assert words in found
