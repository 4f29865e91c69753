"""Pods that no node or scheduler handles: neither a status nor an event explains it, but the job's
conditions do.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob.core.observed.unexplained import events_due
from dijob.core.observed.views import Pod
from dijob.core.plan import make_plan
from samples.builders import OWNER, Body, conditions_of, job, later, observed, pod_body, read, view

CREATED = "2026-05-04T12:00:00Z"
NOWHERE = (
    "rank 0: node nowhere has not accepted the pod within 10 s: the node does not exist, or its"
    " kubelet does not respond"
)
ABSENT = (
    "rank 0: scheduler absent has not considered the pod within 10 s: that scheduler is not"
    " installed, or not running"
)


def bound(node: str, **status: Any) -> Body:
    body = pod_body(0, **status)
    body["spec"]["nodeName"] = node
    return body


def asked(scheduler: str, **status: Any) -> Body:
    body = pod_body(0, **status)
    body["spec"] |= {"schedulerName": scheduler} if scheduler else {}
    return body


@pytest.mark.parametrize(
    ("body", "unacknowledged"),
    [
        pytest.param(bound("nowhere"), "node nowhere", id="a node that does not report"),
        pytest.param(bound("a", startTime=CREATED), "", id="a node that has started it"),
        pytest.param(
            bound("a", containerStatuses=[{"name": "c"}]), "", id="a node that shows containers"
        ),
        pytest.param(asked("absent"), "scheduler absent", id="a scheduler that does not report"),
        pytest.param(asked(""), "scheduler default-scheduler", id="the default one"),
        pytest.param(
            asked("absent", conditions=[{"type": "PodScheduled", "status": "False"}]),
            "",
            id="a scheduler that rejects it",
        ),
    ],
)
def test_which_node_or_scheduler_has_not_handled_a_pod(body: Body, unacknowledged: str) -> None:
    assert read(body).placement.unacknowledged == unacknowledged


CLAIMS = [
    {"name": "gpu", "resourceClaimTemplateName": "two-gpus"},
    {"name": "net", "resourceClaimName": "fast"},
]
MADE = [{"name": "gpu", "resourceClaimName": "job-0-gpu-x7k2p"}]


def needs(spec: Body, **status: Any) -> Body:
    body = pod_body(0, phase="Pending", qosClass="BestEffort", **status)
    body["spec"] |= spec
    return body


@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        pytest.param(
            {"resourceClaims": CLAIMS},
            {},
            "a ResourceClaim created from the ResourceClaimTemplate two-gpus (kubectl get"
            " resourceclaimtemplate two-gpus) and for the ResourceClaim fast (kubectl get"
            " resourceclaim fast)",
            id="no claim was made",
        ),
        pytest.param(
            {"resourceClaims": CLAIMS},
            {"resourceClaimStatuses": MADE},
            "the ResourceClaim fast (kubectl get resourceclaim fast)",
            id="one was made",
        ),
        pytest.param(
            {"schedulingGroup": {"podGroupName": "gang"}},
            {},
            "the PodGroup gang (kubectl get podgroup gang) with at least minCount pods",
            id="a PodGroup",
        ),
        pytest.param(
            {"workloadRef": {"name": "train", "podGroup": "workers"}},
            {},
            "the Workload train (kubectl get workload train) with at least minCount pods",
            id="a Workload",
        ),
    ],
)
def test_the_prerequisites_of_the_scheduler_are_named(spec: Body, status: Body, said: str) -> None:
    """C34: such a pod has no condition, as if there were no scheduler."""
    pod = replace(read(needs(spec, **status)), owner=OWNER)
    decided = make_plan(job(replicas=2), observed(pod, view(1)), later(11))
    found = conditions_of(decided)["AddressesReady"]
    assert (found.status, found.reason) == ("False", "AddressMissing")
    assert found.message == (
        "rank 0: scheduler default-scheduler has not considered the pod within 10 s: the pod is"
        f" waiting for {said}, or that scheduler is not running"
    )


def test_the_message_of_a_scheduler_takes_precedence() -> None:
    no = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU"}
    pod = read(needs({"resourceClaims": CLAIMS}, conditions=[no]))
    assert (pod.complaint, pod.placement.prerequisites) == ("Unschedulable: no GPU", ())


GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        (
            ["example.com/a"],
            "SchedulingGated: its scheduling gate example.com/a has not been removed yet",
        ),
        (["a", "b"], "SchedulingGated: its scheduling gates a, b have not been removed yet"),
        ([], "SchedulingGated: Scheduling is blocked due to non-empty scheduling gates"),
    ],
)
def test_scheduling_gates_are_named(gates: list[str], said: str) -> None:
    """C34. The condition lasts a moment longer than the last gate."""
    held = {"schedulingGates": [{"name": gate} for gate in gates]}
    assert read(needs(held, conditions=[GATED])).complaint == said


def test_the_events_of_a_pod_that_no_scheduler_reports_on_are_read() -> None:
    """C34: the controller of ResourceClaims explains in an event why it creates none."""
    waiting = lonely(unacknowledged="scheduler default-scheduler", node="")
    assert events_due([waiting], {}, later(5)) == (waiting,)
    assert events_due([lonely(node="")], {}, later(5)) == ()


def test_a_node_that_a_scheduler_has_chosen_exists() -> None:
    pod = lonely(unacknowledged="node a", placed=CREATED)
    decided = make_plan(job(replicas=2), observed(pod, view(1)), later(11))
    assert conditions_of(decided)["AddressesReady"].message == (
        "rank 0: node a has not accepted the pod within 10 s: its kubelet does not respond"
    )


def lonely(**fields: Any) -> Pod:
    return view(0, ip="", created=CREATED, **fields)


@pytest.mark.parametrize(
    ("pod", "seconds", "reason", "says"),
    [
        pytest.param(
            lonely(unacknowledged="node nowhere"), 11, "AddressMissing", NOWHERE, id="no such node"
        ),
        pytest.param(
            lonely(unacknowledged="scheduler absent", node=""),
            11,
            "AddressMissing",
            ABSENT,
            id="no scheduler",
        ),
        pytest.param(
            lonely(unacknowledged="node nowhere"),
            9,
            "Gathering",
            "its node is starting its pod",
            id="not so soon",
        ),
        pytest.param(
            lonely(), 600, "Gathering", "its node is starting its pod", id="its node has it"
        ),
        pytest.param(
            lonely(unacknowledged="node a", complaint="Evicted: x"),
            11,
            "AddressMissing",
            "Evicted",
            id="a complaint",
        ),
    ],
)
def test_the_conditions_name_the_node_or_scheduler(
    pod: Pod, seconds: float, reason: str, says: str
) -> None:
    decided = make_plan(job(replicas=2), observed(pod, view(1)), later(seconds))
    found = conditions_of(decided)["AddressesReady"]
    assert (found.status, found.reason) == ("False", reason)
    assert says in found.message
    assert decided.requeue_after <= 5


def test_the_message_of_an_event_takes_precedence() -> None:
    decided = make_plan(
        job(replicas=1),
        observed(lonely(unacknowledged="node a"), warnings={"uid-0": "FailedMount: no volume"}),
        later(60),
    )
    found = conditions_of(decided)["AddressesReady"]
    assert "FailedMount" in found.message


def test_the_message_does_not_change_while_the_pod_waits() -> None:
    """Each change would be a write of the status."""
    seen = observed(lonely(unacknowledged="node nowhere"), view(1))
    first, last = (make_plan(job(replicas=2), seen, later(seconds)).status for seconds in (11, 600))
    assert [c.message for c in first.conditions] == [c.message for c in last.conditions]


def test_pods_of_the_group_that_have_ended_are_counted() -> None:
    """Only the user can lower minCount of a PodGroup that is not the operator's."""
    group = {"schedulingGroup": {"podGroupName": "gang"}}
    waiting = replace(read(needs(group)), owner=OWNER)
    done = view(1, phase="Succeeded", group="gang", succeeded=True)
    decided = make_plan(job(replicas=2), observed(waiting, done), later(11))
    assert (
        "the PodGroup gang (kubectl get podgroup gang) with at least minCount pods (1 ended pod of"
        " the job does not count any more, so lower minCount)"
    ) in conditions_of(decided)["AddressesReady"].message
