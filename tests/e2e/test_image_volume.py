"""Nodes that cannot mount the launcher's image: the operator re-creates their pods with an init
container, and creates all later pods with one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cluster import Cluster
from cluster.namespace import enter
from cluster.shell import run
from identity import identities, until_healed
from jobs import peers
from sockets import mesh, until_edges
from space import HOME, Space, measured, without_operator

pytestmark = pytest.mark.e2e

PORTS = (50515,)
# The folder in which containerd mounts image volumes.
VOLUMES = "/run/containerd/io.containerd.grpc.v1.cri/image-volumes"
LAUNCHER = "dijob-launcher"


@contextmanager
def unmountable(cluster: Cluster) -> Iterator[None]:
    """Make containerd fail to mount image volumes on all nodes during the block. The kubelets then
    report the same error as with a snapshotter that does not support image volumes.
    """
    holders = [cluster.node(name).holder for name in cluster.nodes]
    for holder in holders:
        run([*enter(holder), "mkdir", "-p", VOLUMES])
        run([*enter(holder), "mount", "-t", "tmpfs", "-o", "ro", "none", VOLUMES])
    try:
        yield
    finally:
        for holder in holders:
            run([*enter(holder), "umount", VOLUMES])


@pytest.fixture
def guesses(cluster: Cluster) -> Iterator[None]:
    """Start a new operator after the test. The new operator guesses again what nodes can mount."""
    yield
    with without_operator(cluster):
        pass


def installed(space: Space, job: str) -> dict[str, bool]:
    """Return for each pod of a job whether an init container installs the launcher."""
    return {
        pod["metadata"]["name"]: any(
            each["name"] == LAUNCHER for each in pod["spec"].get("initContainers") or ()
        )
        for pod in space.pods(job)
    }


def reasons(space: Space, job: str) -> set[str]:
    """Return the reasons of the events about a job."""
    path = "{.items[*].reason}"
    selector = f"involvedObject.kind=DIJob,involvedObject.name={job}"
    return set(
        space.kubectl(
            "get", "events", f"--field-selector={selector}", "-o", f"jsonpath={path}"
        ).split()
    )


@pytest.mark.usefixtures("guesses")
def test_if_nodes_cannot_mount_the_launcher_an_init_container_copies_it(
    space: Space, cluster: Cluster
) -> None:
    space.apply(peers("mounted", "--forever", replicas=2))
    space.until_true("mounted", "PeersReady", 180)
    assert set(installed(space, "mounted").values()) == {False}
    mounted = identities(space, "mounted")
    with unmountable(cluster):
        # A wrong guess costs no failure, although the job allows none.
        space.apply(peers("world", "--forever", replicas=3, backoffLimit=0))
        waited = space.until_true("world", "PeersReady", 180)
        measured("seconds until a job runs whose first pods cannot mount", f"{waited:.1f}")
        assert set(installed(space, "world").values()) == {True}
        status = space.status("world")
        assert (status["listNumber"], status.get("restarts", 0)) == (1, 0), status
        assert "LauncherNotMounted" in reasons(space, "world")
        log = cluster.run_kubectl("-n", HOME, "logs", "deployment/dijob", "--tail=200")
        assert log.count("so init containers install the launcher in all new pods") == 1, log
        # Later pods need no attempt, and the pods that run keep running.
        space.apply(peers("later", "--forever", replicas=2))
        space.until_true("later", "PeersReady", 180)
        assert "LauncherNotMounted" not in reasons(space, "later")
        assert identities(space, "mounted") == mounted
    # A new operator guesses again, and does not touch the pods of the previous operator.
    world = identities(space, "world")
    with without_operator(cluster):
        pass
    space.kubectl("delete", "pod", "world-2", "--wait=false")
    until_healed(space, "world", world, {"world-2"}, 2)
    assert installed(space, "world") == {"world-0": True, "world-1": True, "world-2": False}
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    assert identities(space, "mounted") == mounted
