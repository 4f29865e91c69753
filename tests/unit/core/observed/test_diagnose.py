"""Messages for people: which rank waits for what, grouped, short, and with a remedy."""

from typing import Any

import pytest
from dijob import names
from dijob.core.observed import diagnose
from dijob.core.observed.views import ApiRejection, Creation, Observed, Pod, RejectionCause
from dijob.reasons import PodsCreated
from samples.builders import NOW, gang, listed, observed, view

NO_LAUNCHER = f"container {names.LAUNCHER_CONTAINER}: ImagePullBackOff: image x cannot be pulled"


def refused(message: str, why: RejectionCause = RejectionCause.FORBIDDEN) -> ApiRejection:
    return ApiRejection(why, message, NOW)


NOT_ADMITTED = {"job-1": Creation(2, NOW, rejected="NodePorts: no")}
WAITS: dict[str, tuple[Pod | None, dict[str, Any], str]] = {
    "not created yet": (None, {}, "its pod is being created"),
    "not admitted by its node": (None, {"creations": NOT_ADMITTED}, "NodePorts: no"),
    "not admitted, and re-created": (
        view(1, ip=""),
        {"creations": NOT_ADMITTED},
        "NodePorts: no",
    ),
    "not admitted, and its name is taken now": (
        None,
        {"creations": NOT_ADMITTED, "rejections": {"pod/job-1": refused("taken")}},
        "taken",
    ),
    "rejected": (None, {"rejections": {"pod/job-1": refused("exceeded quota")}}, "exceeded quota"),
    "old one ends": (view(1, deleting=True), {}, "its old pod is still terminating"),
    "T2: the pod that its node did not admit ends": (
        view(1, deleting=True),
        {"creations": NOT_ADMITTED},
        "NodePorts: no",
    ),
    "with a stale list": (listed(1), {}, "its pod has a stale peer list and is being replaced"),
    "no node": (view(1, ip="", node=""), {}, "its pod is waiting for a node"),
    "on a node": (view(1, ip=""), {}, "its node is starting its pod"),
    "complains": (
        view(1, ip="", complaint="Unschedulable: 0/2 nodes"),
        {},
        "Unschedulable: 0/2 nodes",
    ),
    "an event knows": (
        view(1, ip=""),
        {"warnings": {"uid-1": "FailedMount: no such ConfigMap"}},
        "FailedMount: no such",
    ),
    "its own complaint first": (view(1, ip="", complaint="A"), {"warnings": {"uid-1": "B"}}, "A"),
    "its image is on the way": (
        view(1, unstarted=True, image="a/b:1"),
        {},
        "its node has not started its container yet, and may still be pulling the image a/b:1",
    ),
    "no launcher": (
        view(1, unstarted=True, complaint=NO_LAUNCHER),
        {},
        "set the chart value launcher.image",
    ),
}


@pytest.mark.parametrize(("pod", "known", "why"), WAITS.values(), ids=WAITS)
def test_why_a_rank_has_no_address(pod: Pod | None, known: dict[str, Any], why: str) -> None:
    seen = observed(*([pod] if pod else []), **known)
    text = diagnose.without_address(gang(), [1], seen, NOW)
    assert text.startswith("rank 1: ")
    assert why in text


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ((), "each of ranks 0-2: its pod is gone"),
        (
            (view(0), view(1), listed(2)),
            "each of ranks 0-1: it is starting; rank 2: it has not received the newest peer list"
            " yet",
        ),
        (
            (view(0), listed(1, complaint="container x: CrashLoopBackOff"), view(2)),
            "each of ranks 0,2: it is starting; rank 1: container x: CrashLoopBackOff",
        ),
    ],
    ids=["gone", "starting", "one-crashes"],
)
def test_why_a_rank_is_not_ready_grouped_by_cause(pods: tuple[Pod, ...], text: str) -> None:
    assert diagnose.not_ready(gang(), range(3), observed(*pods), NOW) == text


def test_a_rejection_has_its_reason_and_the_api_error() -> None:
    seen = Observed(rejections={f"pod/job-{rank}": refused("exceeded quota") for rank in (0, 2)})
    assert diagnose.describe_rejections(gang(), [0, 1, 2], seen) == (
        PodsCreated.PodForbidden,
        "ranks 0,2: exceeded quota",
    )
    assert diagnose.describe_rejections(gang(), [1], seen) is None


def test_the_same_rejection_of_several_pods_is_one_cause() -> None:
    words = {rank: f'pods "job-{rank}" is forbidden: no service account' for rank in range(3)}
    words[2] = 'pods "job-2" is forbidden: exceeded quota'
    seen = Observed(rejections={f"pod/job-{rank}": refused(text) for rank, text in words.items()})
    said = diagnose.describe_rejections(gang(), [0, 1, 2], seen)
    assert said == (PodsCreated.PodForbidden, f"ranks 0-1: {words[0]}; rank 2: {words[2]}")
    assert diagnose.without_address(gang(), [0, 1, 2], seen, NOW) == said[1]


def test_every_kind_of_rejection_of_a_pod_has_a_reason() -> None:
    """Only a Service can be outdated. A pod of another spec is not rejected."""
    assert set(diagnose.REFUSED_REASONS) == set(RejectionCause) - {RejectionCause.OUTDATED}


def test_the_reason_of_a_rejecting_node_stays_while_the_old_pod_ends() -> None:
    """T2: the old pod keeps the name for a moment."""
    waits = refused("waiting for the old pod job-1 to terminate", RejectionCause.TERMINATING)
    seen = Observed(rejections={"pod/job-1": waits}, creations=NOT_ADMITTED)
    assert diagnose.describe_rejections(gang(), [1], seen) is None
    assert diagnose.without_address(gang(), [1], seen, NOW) == "rank 1: NodePorts: no"
