"""Why a pod that is being deleted still exists (C41, C25)."""

from typing import Any

import pytest
from dijob.core.observed.parse import owner_in_words
from dijob.core.observed.rejections import name_in_use
from dijob.core.observed.termination import NOT_DELETED, parse_termination
from dijob.core.observed.views import RejectionCause
from dijob.names import LABEL_JOB, LABEL_SERVER
from samples.builders import Body, job, later, observed, plan, pod_body, read, running, stored

NOW, UNTIL = later(0), "2026-05-04T12:05:00Z"
RUNS: Body = {"state": {"running": {"startedAt": "2026-05-04T11:00:00Z"}}}
ENDED: Body = {"state": {"terminated": {"exitCode": 0}}}
MAIN, PROXY = "di-container", "proxy"


def body(*finalizers: str, grace: int = 300, **status: Any) -> Body:
    """Return a pod of rank 1 that is being deleted."""
    made = pod_body(1, podIP="10.0.0.1", phase="Running", **status)
    made["spec"]["nodeName"] = "node-a"
    made["metadata"] |= {
        "deletionTimestamp": UNTIL,
        "deletionGracePeriodSeconds": grace,
        "finalizers": list(finalizers),
    }
    return made


def statuses(**states: Body) -> dict[str, Any]:
    """Return container statuses, with sidecars among the init containers."""
    of = {name.replace("_", "-"): state for name, state in states.items()}
    return {
        "initContainerStatuses": [{"name": PROXY, **of[PROXY]}] if PROXY in of else [],
        "containerStatuses": [{"name": n, **state} for n, state in of.items() if n != PROXY],
    }


HELD: dict[str, tuple[Body, float, str]] = {
    "a sidecar that ignores TERM": (
        body(**statuses(proxy=RUNS, di_container=ENDED)),
        20,
        "container proxy was still running as of the node's last report, and may run until"
        f" {UNTIL} (",
    ),
    "two plain containers": (
        body(**statuses(di_container=RUNS, second=RUNS)),
        20,
        "containers di-container, second were still running",
    ),
    "a container beyond its grace period": (
        body(**statuses(proxy=RUNS)),
        400,
        f"its grace period of 300 s ended at {UNTIL}: check node node-a",
    ),
    "a finalizer": (
        body("example.com/hold", **statuses(di_container=ENDED)),
        20,
        "finalizer example.com/hold blocks its deletion until the controller that set the"
        " finalizer removes it",
    ),
    "many finalizers": (
        body(*(f"x.io/{n}" for n in range(9)), **statuses(di_container=ENDED)),
        20,
        "finalizers x.io/0, x.io/1, x.io/2 and 6 more block its deletion until",
    ),
    "a container first, and a finalizer after it": (
        body("example.com/hold", **statuses(proxy=RUNS)),
        20,
        "container proxy was still running",
    ),
    "a node that does not remove it": (
        body(grace=2, **statuses(di_container=ENDED)),
        400,
        f"its grace period ended at {UNTIL}, and node node-a has not removed the pod",
    ),
}


@pytest.mark.parametrize(("held", "at", "why"), HELD.values(), ids=HELD)
def test_the_reason_why_an_old_pod_still_exists(held: Body, at: float, why: str) -> None:
    """C41, C25."""
    assert why in parse_termination(held).reason(later(at))


def test_a_pod_that_is_not_being_deleted_has_no_reason() -> None:
    assert parse_termination(pod_body(1)) is NOT_DELETED
    assert read(pod_body(1)).placement.termination.reason(NOW) == ""


@pytest.mark.parametrize("owner", [running(), running(minReplicas=1, replicas=3)], ids=["", "ela"])
def test_the_message_of_a_job_names_what_its_lost_rank_waits_for(owner: Any) -> None:
    """C41: after a loss."""
    others = [read(pod_body(rank, owner, podIP=f"10.0.0.{rank}")) for rank in (0, 2)]
    seen = observed(*others, read(body(**statuses(proxy=RUNS, di_container=ENDED))))
    lost = stored(owner, plan(owner, seen, NOW))
    said = plan(lost, seen, later(1)).status
    waits = "rank 1: its old pod is still terminating: container proxy was still running"
    assert waits in " ".join(each.message for each in said.conditions)


def test_a_suspended_job_names_what_its_pods_wait_for() -> None:
    """C41: while a job is suspended, and while it waits to resume."""
    owner = running()
    asked = owner.spec.model_copy(update={"suspend": True})
    owner = owner.model_copy(update={"spec": asked})
    seen = observed(read(body("example.com/hold", **statuses(di_container=ENDED))))
    owner = stored(owner, plan(owner, seen, NOW))
    said = plan(owner, seen, later(1)).status.message
    waits = "1 pod still terminating (pod job-1: finalizer example.com/hold blocks its deletion"
    assert waits in said
    resumed = owner.model_copy(update={"spec": job().spec})
    assert "finalizer example.com/hold" in plan(resumed, seen, later(2)).status.message


def test_the_deletion_of_a_former_jobs_pod_is_explained() -> None:
    """C25: the pods of a deleted job of the same name."""
    why = parse_termination(body("example.com/hold")).reason(NOW)
    rejection = name_in_use(RejectionCause.TERMINATING, "pod job-1", NOW, None, why)
    assert rejection.message.startswith(
        "waiting for the old pod job-1 to terminate: finalizer example.com"
    )


@pytest.mark.parametrize(
    ("meta", "whose"),
    [
        (
            {"labels": {LABEL_JOB: "c17"}},
            "belongs to a former DIJob c17, according to its labels: delete",
        ),
        (
            {"labels": {LABEL_SERVER: "c17"}},
            "belongs to a former DIJob c17, according to its labels: delete",
        ),
        (
            {"ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]},
            "belongs to ReplicaSet web-1: delete",
        ),
        ({"labels": {"app": "x"}}, "belongs to somebody else: delete it"),
    ],
)
def test_a_foreign_object_with_a_needed_name_is_reported_with_its_owner(
    meta: Body, whose: str
) -> None:
    """C17: pods that a deletion with --cascade=orphan has left."""
    about = owner_in_words({"metadata": {"name": "c17-0", **meta}})
    assert whose in name_in_use(RejectionCause.TAKEN, "pod c17-0", NOW, None, about).message
