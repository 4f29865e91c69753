"""Who is no rank of a job does not reach it, where the network enforces policies.

The test's own rules stand for a network plug-in (enforcer.py): none can be had here.
"""

from collections.abc import Iterator

import pytest
from archives import archive
from cluster import Cluster
from enforcer import enforced, rules
from identity import identities
from jobs import LIGHT, peers
from release import install
from sockets import mesh, until_edges
from space import Body, Space

pytestmark = pytest.mark.e2e

PORT = 50515
GUEST = {"role": "guest"}


@pytest.fixture
def network(cluster: Cluster) -> Iterator[None]:
    """Policies hold; afterwards the release makes none any more."""
    with enforced(cluster):
        yield
        install(cluster, archive("operator"))


def stranger(name: str, **labels: str) -> Body:
    main = {"name": "di-container", "image": LIGHT, "imagePullPolicy": "IfNotPresent"}
    command = {"command": ["/bin/bash", "-c", "exec sleep infinity"]}
    meta = {"name": name, "labels": labels}
    spec = {"containers": [{**main, **command}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def reaches(space: Space, pod: str, address: str) -> bool:
    """Whether a process in this pod can connect to a rank's port."""
    dial = f"exec 3<>/dev/tcp/{address}/{PORT} && echo in || echo out"
    return space.execute(pod, "timeout", "5", "bash", "-c", dial).strip() == "in"


def until_reach(space: Space, wanted: dict[str, bool], address: str) -> None:
    def problem() -> str:
        found = {pod: reaches(space, pod, address) for pod in wanted}
        return "" if found == wanted else f"{found} instead of {wanted}"

    space.until(f"these pods reach {address}: {wanted}", problem, 30)


@pytest.mark.usefixtures("network")
def test_nobody_but_a_jobs_ranks_reaches_its_ports(space: Space, cluster: Cluster) -> None:
    space.apply(
        stranger("stranger"),
        stranger("guest", **GUEST),
        peers("other", "--forever", replicas=1),
        peers("old", "--forever"),
    )
    space.until_true("old", "PeersReady")
    space.until_true("other", "PeersReady")
    space.kubectl("wait", "pod", "stranger", "guest", "--for=condition=Ready", "--timeout=60s")
    everybody = dict.fromkeys(("stranger", "guest", "other-0", "old-1"), True)
    until_reach(space, everybody, space.ips("old")[0])
    before = identities(space, "old")
    install(cluster, archive("operator"), "networkPolicy.jobs=true")
    ranks_alone = dict.fromkeys(everybody, False) | {"old-1": True}
    until_reach(space, ranks_alone, space.ips("old")[0])
    assert identities(space, "old") == before
    space.apply(peers("world", "--forever", replicas=3))
    space.until_true("world", "PeersReady")
    until_edges(space, "world", mesh(space.ips("world"), 1), (PORT,))
    until_reach(space, dict.fromkeys(everybody, False), space.ips("world")[0])
    # A user's own policy lets in whom it names besides.
    ranks = {"matchLabels": {"diengine.opendilab.org/job": "world"}}
    allow = {"from": [{"podSelector": {"matchLabels": GUEST}}], "ports": [{"port": PORT}]}
    spec = {"podSelector": ranks, "policyTypes": ["Ingress"], "ingress": [allow]}
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    space.apply({**kind, "metadata": {"name": "guests"}, "spec": spec})
    guests = dict.fromkeys(everybody, False) | {"guest": True}
    until_reach(space, guests, space.ips("world")[0])


def test_the_rules_of_a_policy() -> None:
    """What the enforcer makes of the operator's form."""

    def pod(name: str, ip: str, **labels: str) -> Body:
        meta = {"name": name, "namespace": "a", "labels": labels}
        return {"metadata": meta, "status": {"podIP": ip}}

    ranks = {"matchLabels": {"job": "x"}}
    policy: Body = {
        "metadata": {"namespace": "a"},
        "spec": {"podSelector": ranks, "ingress": [{"from": [{"podSelector": ranks}]}]},
    }
    pods = [pod("x-0", "10.0.0.1", job="x"), pod("x-1", "10.0.0.2", job="x"), pod("y", "10.0.0.3")]
    assert rules([policy], pods)[1:] == [
        "-s 10.0.0.1/32 -d 10.0.0.1/32 -j RETURN",
        "-s 10.0.0.2/32 -d 10.0.0.1/32 -j RETURN",
        "-s 10.0.0.1/32 -d 10.0.0.2/32 -j RETURN",
        "-s 10.0.0.2/32 -d 10.0.0.2/32 -j RETURN",
        "-d 10.0.0.1/32 -j REJECT",
        "-d 10.0.0.2/32 -j REJECT",
    ]
    assert rules([], pods)[1:] == []
