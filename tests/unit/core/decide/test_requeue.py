"""When a job is reconciled again: at once only if something is due."""

from collections.abc import Mapping
from datetime import datetime
from itertools import product
from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.status import format_time
from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.observed.termination import Termination
from dijob.core.observed.views import ApiRejection, Creation, Observed, Pod, RejectionCause
from dijob.core.plan import Plan, make_plan
from samples.builders import NOW, Body, changed, job_body, later, listed, observed, stored, view

LONG_AGO = later(-500)
SERVED = frozenset({"job"})


def refused(seconds: float) -> ApiRejection:
    return ApiRejection(RejectionCause.FORBIDDEN, "quota", later(seconds))


def with_pod(pods: Mapping[int, Pod], **fields: Any) -> dict[int, Pod]:
    return {**pods, 1: changed(pods[1], **fields)} if 1 in pods else dict(pods)


# What the job is waiting for: fields of the observed state, and of rank 1's pod.
TOLD = {("uid-1", 1): LONG_AGO, ("uid-1", 2): LONG_AGO}
WANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "its rejected service, due for a retry": (
        {"services": frozenset(), "rejections": {"service/job": refused(-9)}},
        {},
    ),
    "its service, rejected just now": (
        {"services": frozenset(), "rejections": {"service/job": refused(0.3)}},
        {},
    ),
    "a gate whose kubelet has missed the list": (
        {"list_seen": TOLD},
        {"gated": True, "ready": False},
    ),
    "a gate that was reminded a moment ago": (
        {"list_seen": TOLD, "reminded": {("uid-1", 1): later(-3.9)}},
        {"gated": True, "ready": False},
    ),
    "a process that does not restart": (
        {"list_seen": TOLD},
        {"renew_from": 2, "restartable": True, "started": format_time(later(-900))},
    ),
    "a process that was just requested to restart": (
        {"list_seen": {("uid-1", 2): NOW}},
        {"renew_from": 2, "restartable": True, "started": format_time(later(-900))},
    ),
    "a lost pod that is rejected": ({"rejections": {"pod/job-1": refused(-9)}}, {"gone": True}),
    "a pod that is lost repeatedly": (
        {"creations": {"job-1": Creation(3, later(-2))}},
        {"gone": True},
    ),
    "a pod that finds no node": (
        {},
        {"node": "", "ip": "", "ips": "", "number": 0, "phase": "Pending", "complaint": "no room"},
    ),
    "a pod on a lost node": (
        {},
        {"deleting": True, "node_lost": True, "termination": Termination(format_time(LONG_AGO))},
    ),
    "a pod that has been chosen to go": ({}, {"disrupted": True}),
}
BRANCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "starts": ({}, {"fresh": True}),
    "runs": ({}, {}),
    "runs elastically": (
        {"minReplicas": 2, "maxReplicas": 5, "replicas": 5, "gatherSeconds": 60},
        {},
    ),
    "has a server": ({"messageQueue": {"type": "redis"}}, {}),
    "has a deadline": ({"activeDeadlineSeconds": 3000, "startupDeadlineSeconds": 2000}, {}),
    "restarts all ranks": ({}, {"dead": True}),
    "has no capacity": ({}, {"fresh": True, "no_room": True}),
    "has another template": ({}, {"changed": True}),
    "is paused": ({}, {"paused": True}),
    "is suspended": ({"suspend": True}, {}),
    "has failed": ({}, {"ended": "Failed"}),
    "has succeeded, and is deleted in the end": (
        {"ttlSecondsAfterFinished": 3600},
        {"ended": "Succeeded"},
    ),
    "is being deleted": ({}, {"going": True}),
}


def status(how: Mapping[str, Any]) -> Body:
    ends = {"phase": how["ended"], "completionTime": format_time(NOW)} if how.get("ended") else {}
    type_ = how.get("ended") or "Running"
    told = (
        ()
        if how.get("fresh")
        else ({"type": type_, "status": "True", "lastTransitionTime": format_time(LONG_AGO)},)
    )
    return {
        "startTime": format_time(LONG_AGO),
        "listNumber": 0 if how.get("fresh") else 1,
        "conditions": list(told),
        **(
            {"lastRenewal": {"listNumber": 1, "ranks": "1-2", "time": format_time(NOW)}}
            if how.get("dead")
            else {}
        ),
        **(
            {"givenBack": {"count": 1, "until": format_time(later(20)), "message": "no"}}
            if how.get("no_room")
            else {}
        ),
        **ends,
    }


def body(spec: Mapping[str, Any], how: Mapping[str, Any]) -> Body:
    made = job_body(status=status(how), **spec)
    if how.get("paused"):
        made["metadata"]["annotations"] = {names.ANNOTATION_PAUSED: "true"}
    if how.get("going"):
        made["metadata"]["deletionTimestamp"] = format_time(NOW)
    return made


def seen(
    how: Mapping[str, Any], fields: Mapping[str, Any], pod: Mapping[str, Any], owner: DIJob
) -> Observed:
    bare = how.get("fresh")
    made = {rank: view(rank, owner) if bare else listed(rank, owner) for rank in range(3)}
    if how.get("changed"):
        made = {rank: changed(one, template_hash="another") for rank, one in made.items()}
    lost = pod.get("gone")
    made = {rank: one for rank, one in made.items() if rank != 1} if lost else with_pod(made, **pod)
    return observed(*made.values(), **{"services": SERVED, **fields})


def settled(owner: DIJob, given: Observed, now: datetime) -> tuple[Plan, DIJob]:
    """Return the plan that has nothing more to write."""
    for _ in range(9):
        decided = make_plan(owner, given, now)
        if decided.status == owner.status:
            return decided, owner
        owner = stored(owner, decided)
    pytest.fail("it writes another status in each pass")


@pytest.mark.parametrize(("branch", "want"), list(product(BRANCHES, WANTS)))
def test_an_idle_job_is_reconciled_again_only_when_something_is_due(branch: str, want: str) -> None:
    (spec, how), (fields, pod) = BRANCHES[branch], WANTS[want]
    owner = parse_job(body(spec, how))
    given = seen(how, fields, pod, owner)
    decided, owner = settled(owner, given, NOW)
    assert decided.requeue_after <= RESYNC_SECONDS
    if decided.actions or decided.requeue_after >= 1:
        return
    # The next reconciliation is soon, so it must have something to do.
    then = make_plan(owner, given, later(decided.requeue_after))
    assert then.actions or then.status != owner.status, decided.requeue_after
