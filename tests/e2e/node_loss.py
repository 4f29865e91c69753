"""A node falls silent, and a job must recover without it."""

from collections.abc import Iterator
from contextlib import contextmanager

from identity import identities
from jobs import peers
from sockets import mesh, until_edges
from space import HOME, JOB_LABEL, OPERATORS, Body, Space, measured

# The time until Kubernetes treats a silent node as lost (kube-controller-manager
# --node-monitor-grace-period).
MONITOR_SECONDS = 50
GRACE_SECONDS, SLACK_SECONDS = 2, 30
# Long enough that the status can be read before the pods are evicted.
LOST_NODE_SECONDS = 10
BOUND = MONITOR_SECONDS + LOST_NODE_SECONDS + GRACE_SECONDS + SLACK_SECONDS
# The operator moves to another node (the chart's lostNodeSeconds, 5) before the ranks are evicted.
OPERATORS_BOUND = 90


def placed(name: str) -> Body:
    """Return pod spec fields that spread a job across all nodes, and let its pods end soon."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"diengine.opendilab.org/job": name}},
    }
    return {
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "topologySpreadConstraints": [spread],
    }


def world() -> Body:
    size = {"replicas": 4, "lostNodeSeconds": LOST_NODE_SECONDS}
    job = peers("world", "--forever", backoffLimit=0, **size)
    job["spec"]["template"]["spec"] |= placed("world")
    return job


def operators(space: Space) -> dict[str, str]:
    """Return the nodes of the operator's pods that are not being deleted, by pod."""
    found = space.api.pods(HOME, OPERATORS)
    alive = (pod for pod in found if "deletionTimestamp" not in pod["metadata"])
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in alive}


@contextmanager
def without_power(space: Space, node: str) -> Iterator[None]:
    """Cut the power of a node during the block. Afterwards it is back, and an operator is ready."""

    def problem() -> str:
        return " ".join(sorted(set(space.cluster.nodes) - space.cluster.ready_nodes()))

    space.cluster.stop_node(node)
    try:
        yield
    finally:
        space.cluster.start_node(node)
        space.until("every node is Ready", problem, 300)
        space.cluster.run_kubectl(
            "-n", HOME, "rollout", "status", "deployment/dijob", "--timeout=60s", timeout=70
        )


def whole_again(space: Space, with_operator: bool, bound: int) -> None:
    """Check that a job on all nodes recovers within `bound` seconds after one node (the operator's
    or another) has fallen silent, without counted failures.
    """
    ((operator, home),) = operators(space).items()
    space.apply(world())
    space.until_true("world", "PeersReady")
    # If a node is lost before its kubelet has reported a pod as Ready, the pod shows no sign of the
    # loss.
    space.kubectl(
        *("wait", "pods", "-l", f"{JOB_LABEL}=world", "--for=condition=Ready", "--timeout=120s"),
        timeout=130,
    )
    before = identities(space, "world")
    there = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in space.pods("world")}
    assert set(there.values()) == set(space.cluster.nodes), there
    doomed = home if with_operator else next(name for name in space.cluster.nodes if name != home)
    lost = sorted(name for name, node in there.items() if node == doomed)
    with without_power(space, doomed):
        if not with_operator:
            said = f"node {doomed} has been unreachable since"
            space.until(
                f"the job names {doomed}",
                lambda: "" if said in (now := space.status("world")["message"]) else now,
                MONITOR_SECONDS + LOST_NODE_SECONDS,
            )

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
