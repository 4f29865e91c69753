"""How launchers get their peer lists from the operator on real nodes, and what happens if they
cannot reach the operator.
"""

import pytest
from archives import archive
from cluster import Cluster
from cluster.enforcement import enforced
from identity import identities, kill_program, running
from jobs import LIGHT, peers
from manifests import GROUP
from release import install
from sockets import mesh, until_edges
from space import HOME, Body, Space, measured, without_operator

pytestmark = pytest.mark.e2e

PORTS = (50515,)
IPS = f"{GROUP}/node-ips"
# Pods may connect to each other, but to nothing else.
CLOSED: Body = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed"},
    "spec": {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"podSelector": {}}]}],
    },
}


# The policy controller needs a moment for each new pod. Until then, a launcher could connect. A
# connection that takes long on a busy machine must not look like a blocked one.
UNTIL_CLOSED: Body = {
    "name": "until-closed",
    "image": LIGHT,
    "imagePullPolicy": "IfNotPresent",
    "command": ["/bin/bash", "-c"],
    "args": [
        "while timeout 5 bash -c '</dev/tcp/dijob-channel.dijob-system.svc.cluster.local/8082';"
        " do sleep 0.1; done"
    ],
}


def listed(space: Space) -> set[bool]:
    """Return whether the pods have a peer list in their annotations."""
    return {IPS in (pod["metadata"].get("annotations") or {}) for pod in space.pods("world")}


def test_a_job_starts_without_a_write_to_its_pods(space: Space) -> None:
    running(space, replicas=3)
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    assert listed(space) == {False}
    for pod in space.pods("world"):
        assert not pod["spec"].get("initContainers")
    told = space.execute("world-1", "/run/dijob/bin/launch", "printenv", "DI_NODE_IPS")
    assert told.strip() == ",".join(space.ips("world"))


def test_after_a_restart_of_the_operator_no_list_is_written_and_a_loss_is_healed(
    space: Space,
) -> None:
    ranks = running(space, replicas=3)
    with without_operator(space.cluster):
        pass
    # A change to the job is reconciled only when the launchers have connected again.
    space.kubectl("patch", "dijob", "world", "--type=merge", '-p={"spec":{"backoffLimit":1}}')
    generation = space.job("world")["metadata"]["generation"]

    def not_seen() -> str:
        seen = space.status("world")["observedGeneration"]
        return "" if seen == generation else f"generation {seen}"

    waited = space.until("the edit is seen", not_seen, 120)
    measured("seconds from the ready operator to its first reaction", f"{waited:.1f}")
    assert listed(space) == {False}
    assert identities(space, "world") == ranks
    space.kubectl("delete", "pod", "world-1", "--wait=false")
    space.until("the second list is active", lambda: second_list(space), 180)
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    assert listed(space) == {False}
    assert space.status("world").get("restarts", 0) == 0


def second_list(space: Space) -> str:
    status = space.status("world")
    ready = space.condition("world", "PeersReady").get("status") == "True"
    return "" if (status["listNumber"], ready) == (2, True) else str(status)


def test_a_program_restarts_while_there_is_no_operator(space: Space) -> None:
    """The launcher has kept the list. It waits 30 s for an operator that counts the failure."""
    running(space, replicas=2, backoffLimit=3)
    with without_operator(space.cluster):
        kill_program(space, "world-1")
        space.until("the program runs again", lambda: restarted(space), 240)
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)


def restarted(space: Space) -> str:
    (status,) = space.pods("world")[1]["status"]["containerStatuses"]
    return "" if status["restartCount"] == 1 and status["ready"] else str(status)


def test_if_a_policy_blocks_the_channel_the_lists_are_annotations(
    space: Space, cluster: Cluster
) -> None:
    with enforced(cluster):
        space.apply(CLOSED)
        pod = {"initContainers": [UNTIL_CLOSED]}
        space.apply(peers("world", "--forever", pod=pod, replicas=2))
        waited = space.until_true("world", "PeersReady", 180)
        measured("seconds until a job without a channel runs", f"{waited:.1f}")
        assert listed(space) == {True}
        log = cluster.run_kubectl("-n", HOME, "logs", "deployment/dijob", "--tail=200")
        assert f"{space.name}/world" in log
        assert "has not connected to the operator" in log
        ranks = identities(space, "world")
        space.kubectl("delete", "pod", "world-1", "--wait=false")
        space.until("the second list is active", lambda: second_list(space), 180)
        assert identities(space, "world")["world-0"] == ranks["world-0"]
    # Later lists reach a launcher in both ways.
    space.kubectl("delete", "networkpolicy", "closed")


def test_a_release_without_a_channel_uses_gates(space: Space, cluster: Cluster) -> None:
    ranks = running(space, replicas=2)
    install(cluster, archive("operator"), "launcher.channel=false")
    try:
        space.apply(peers("gated", "--forever", replicas=2))
        space.until_true("gated", "PeersReady", 180)
        for pod in space.pods("gated"):
            names = [each["name"] for each in pod["spec"]["initContainers"]]
            assert names == ["dijob-gate"]
        # The running pods of the previous release lose only their connection.
        space.kubectl("delete", "pod", "world-1", "--wait=false")
        space.until("the second list is active", lambda: second_list(space), 240)
        until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
        assert identities(space, "world")["world-0"] == ranks["world-0"]
    finally:
        install(cluster, archive("operator"))
