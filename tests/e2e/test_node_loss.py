"""A node that falls silent: the job is whole again on the other one, within a bound, and pays nothing."""

from collections.abc import Iterator

import pytest
from identity import identities
from jobs import peers
from sockets import mesh, until_edges
from space import HOME, Body, Space, measured

pytestmark = pytest.mark.e2e

# Kubernetes' own time until a silent node counts as lost (kube-controller-manager --node-monitor-grace-period).
MONITOR_SECONDS = 50
TOLERATION_SECONDS, GRACE_SECONDS, SLACK_SECONDS = 2, 2, 30
BOUND = MONITOR_SECONDS + TOLERATION_SECONDS + GRACE_SECONDS + SLACK_SECONDS


def world() -> Body:
    job = peers("world", "--forever", replicas=4, backoffLimit=0)
    keys = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    tolerated = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    job["spec"]["template"]["spec"] |= {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "tolerations": [{"key": key, **tolerated} for key in keys],
        "topologySpreadConstraints": [
            {**spread, "labelSelector": {"matchLabels": {"diengine.opendilab.org/job": "world"}}}
        ],
    }
    return job


@pytest.fixture
def doomed(space: Space) -> Iterator[str]:
    """The node on which the operator does not run; it is back afterwards."""
    where = space.cluster.run_kubectl("-n", HOME, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    node = next(name for name in space.cluster.nodes if name not in where)
    yield node
    space.cluster.start_node(node)
    space.until(f"{node} is Ready", lambda: "" if node in space.cluster.ready_nodes() else "it is not", 90)


def test_the_job_is_whole_again_on_the_other_node(space: Space, doomed: str) -> None:
    space.apply(world())
    space.until_true("world", "PeersReady")
    before = identities(space, "world")
    there = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in space.pods("world")}
    assert set(there.values()) == set(space.cluster.nodes), there
    lost = sorted(name for name, node in there.items() if node == doomed)
    space.cluster.stop_node(doomed)

    def problem() -> str:
        now = identities(space, "world")
        nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in space.pods("world")}
        ready = space.condition("world", "PeersReady")
        whole = len(now) == 4 and set(nodes.values()) == set(there.values()) - {doomed}
        return "" if whole and ready.get("status") == "True" else f"{nodes}; PeersReady: {ready.get('message')}"

    waited = space.until(f"whole without {doomed}, which had {lost}", problem, BOUND)
    measured(f"seconds from a node's silence until the job is whole without it (bound {BOUND})", f"{waited:.0f}")
    until_edges(space, "world", mesh(space.ips("world"), 1), (50515,))
    status, after = space.status("world"), identities(space, "world")
    assert (status.get("restarts", 0), status.get("firstFailure")) == (0, None)
    first = min(int(name.rpartition("-")[2]) for name in lost)
    touched = {name for name in before if after[name] != before[name]}
    assert touched == {f"world-{rank}" for rank in range(first, 4)}, (lost, touched)
