"""A node that falls silent, be it the operator's own: the job is whole again on the other, and pays
nothing.
"""

from collections.abc import Callable, Iterator

import pytest
from identity import identities
from jobs import peers
from sockets import mesh, until_edges
from space import HOME, Body, Space, measured

pytestmark = pytest.mark.e2e

# Kubernetes' own time until a silent node counts as lost (kube-controller-manager
# --node-monitor-grace-period).
MONITOR_SECONDS = 50
TOLERATION_SECONDS, GRACE_SECONDS, SLACK_SECONDS = 2, 2, 30
BOUND = MONITOR_SECONDS + TOLERATION_SECONDS + GRACE_SECONDS + SLACK_SECONDS
# The operator comes to another node first (the chart's lostNodeSeconds, 5), while the ranks are
# given up.
OPERATORS_BOUND = 80


def world() -> Body:
    job = peers("world", "--forever", replicas=4, backoffLimit=0)
    keys = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    tolerated = {
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": TOLERATION_SECONDS,
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
    }
    job["spec"]["template"]["spec"] |= {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "tolerations": [{"key": key, **tolerated} for key in keys],
        "topologySpreadConstraints": [
            {**spread, "labelSelector": {"matchLabels": {"diengine.opendilab.org/job": "world"}}}
        ],
    }
    return job


def operators(space: Space) -> dict[str, str]:
    """The operator's pods that are not on their way out, each with its node."""
    found = space.api.pods(HOME, "app.kubernetes.io/name=dijob")
    alive = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in alive}


@pytest.fixture
def power(space: Space) -> Iterator[Callable[[str], None]]:
    """Takes a node's power away; it is back afterwards, and an operator is ready."""
    stopped = []

    def off(node: str) -> None:
        stopped.append(node)
        space.cluster.stop_node(node)

    def problem() -> str:
        return " ".join(sorted(set(space.cluster.nodes) - space.cluster.ready_nodes()))

    yield off
    for node in stopped:
        space.cluster.start_node(node)
    space.until("every node is Ready", problem, 90)
    space.cluster.run_kubectl(
        "-n", HOME, "rollout", "status", "deployment/dijob", "--timeout=60s", timeout=70
    )


@pytest.mark.parametrize(
    ("with_operator", "bound"),
    [(False, BOUND), (True, OPERATORS_BOUND)],
    ids=["a-node-of-ranks", "the-operators-node"],
)
def test_the_job_is_whole_again_on_the_other_node(
    space: Space, power: Callable[[str], None], with_operator: bool, bound: int
) -> None:
    ((operator, home),) = operators(space).items()
    space.apply(world())
    space.until_true("world", "PeersReady")
    before = identities(space, "world")
    there = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in space.pods("world")}
    assert set(there.values()) == set(space.cluster.nodes), there
    doomed = home if with_operator else next(name for name in space.cluster.nodes if name != home)
    lost = sorted(name for name, node in there.items() if node == doomed)
    power(doomed)

    def problem() -> str:
        now = identities(space, "world")
        nodes = {
            pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in space.pods("world")
        }
        ready = space.condition("world", "PeersReady")
        whole = len(now) == 4 and set(nodes.values()) == set(there.values()) - {doomed}
        return (
            ""
            if whole and ready.get("status") == "True"
            else f"{nodes}; PeersReady: {ready.get('message')}"
        )

    waited = space.until(f"whole without {doomed}, which had {lost}", problem, bound)
    told = "the operator's node's" if with_operator else "a node's"
    measured(
        f"seconds from {told} silence until the job is whole without it (bound {bound})",
        f"{waited:.0f}",
    )
    assert (operator in operators(space)) is not with_operator
    until_edges(space, "world", mesh(space.ips("world"), 1), (50515,))
    status, after = space.status("world"), identities(space, "world")
    assert (status.get("restarts", 0), status.get("firstFailure")) == (0, None)
    first = min(int(name.rpartition("-")[2]) for name in lost)
    touched = {name for name in before if after[name] != before[name]}
    assert touched == {f"world-{rank}" for rank in range(first, 4)}, (lost, touched)
