"""Pods that are not ranks of a job cannot reach it if the network enforces policies.

kube-router's policy controller enforces them on the cluster's nodes (cluster/enforcement.py).
"""

import time
from collections.abc import Iterator

import pytest
from archives import archive
from cluster import Cluster
from cluster.enforcement import enforced
from identity import identities
from jobs import LIGHT, REQUESTS, peers
from release import install
from sockets import mesh, until_edges
from space import Body, Space, measured

pytestmark = pytest.mark.e2e

PORT, REDIS = 50515, 6379
GUEST = {"role": "guest"}
GUESTS: Body = {"from": [{"podSelector": {"matchLabels": GUEST}}], "ports": [{"port": PORT}]}
ON = "networkPolicy.jobs=true"


@pytest.fixture
def network(cluster: Cluster) -> Iterator[None]:
    """Enable NetworkPolicies in the release during the tests."""
    with enforced(cluster):
        try:
            yield
        finally:
            install(cluster, archive("operator"))


def stranger(name: str, **labels: str) -> Body:
    """Return a pod that belongs to no job."""
    main = {"name": "di-container", "image": LIGHT, "imagePullPolicy": "IfNotPresent", **REQUESTS}
    command = {"command": ["/bin/bash", "-c", "exec sleep infinity"]}
    meta = {"name": name, "labels": labels}
    spec = {"containers": [{**main, **command}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def reaches(space: Space, pod: str, address: str, port: int) -> bool:
    """Return whether a process in a pod can connect to an address."""
    dial = f"timeout 5 bash -c 'exec 3<>/dev/tcp/{address}/{port}' && echo in || echo out"
    return space.execute(pod, "bash", "-c", dial).strip() == "in"


def until_reach(space: Space, address: str, wanted: dict[str, bool], port: int = PORT) -> None:
    def problem() -> str:
        found = {pod: reaches(space, pod, address, port) for pod in wanted}
        return "" if found == wanted else f"{found} instead of {wanted}"

    space.until(f"these pods reach {address}:{port}: {wanted}", problem, 120)


@pytest.mark.usefixtures("network")
def test_only_ranks_and_named_peers_reach_a_job(space: Space, cluster: Cluster) -> None:
    space.apply(
        stranger("stranger"),
        stranger("guest", **GUEST),
        peers("other", "--forever", replicas=1),
        peers("old", "--forever"),
    )
    space.until_true("old", "PeersReady")
    space.until_true("other", "PeersReady")
    space.kubectl("wait", "pod", "stranger", "guest", "--for=condition=Ready", "--timeout=60s")
    without = dict.fromkeys(("stranger", "guest", "other-0", "old-1"), True)
    until_reach(space, space.ips("old")[0], without)
    before = identities(space, "old")

    # If policies are enabled while a job runs, its ranks keep running.
    install(cluster, archive("operator"), ON)
    nobody = dict.fromkeys(without, False)
    until_reach(space, space.ips("old")[0], {**nobody, "old-1": True})
    until_edges(space, "old", mesh(space.ips("old"), 1), (PORT,))

    space.apply(peers("world", "--forever", replicas=3, networkPolicy={"ingress": [GUESTS]}))
    space.until_true("world", "PeersReady")
    until_edges(space, "world", mesh(space.ips("world"), 1), (PORT,))
    until_reach(space, space.ips("world")[0], {**nobody, "guest": True})

    # The peers that the job names change while it runs.
    ranks = identities(space, "world")
    began = time.monotonic()
    space.kubectl("patch", "dijob", "world", "--type=merge", '-p={"spec":{"networkPolicy":null}}')
    until_reach(space, space.ips("world")[0], nobody)
    measured("seconds until a rule that is taken back holds", f"{time.monotonic() - began:.1f}")

    # The job's Redis server has its own policy.
    space.apply(peers("queue", "--forever", replicas=1, messageQueue={"type": "redis"}))
    space.until_true("queue", "PeersReady")
    server = space.kubectl("get", "pod", "queue-mq", "-o=jsonpath={.status.podIP}")
    until_reach(space, server, {**nobody, "queue-0": True}, REDIS)

    # After policies are disabled again, nothing changes for running jobs.
    install(cluster, archive("operator"))
    assert (identities(space, "old"), identities(space, "world")) == (before, ranks)
    until_reach(space, space.ips("world")[0], nobody)
