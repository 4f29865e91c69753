"""Jobs that an operator of a former version has started go on under the present one."""

import subprocess
from pathlib import Path

import pytest
from archives import ROOT, archive
from cluster import Cluster
from identity import how, identities, running, until_healed
from jobs import peers
from pod.boxes import missing
from release import install
from sockets import mesh, until_edges
from space import Space

pytestmark = [pytest.mark.e2e, pytest.mark.long]

# The last one whose pods carried gate and launcher as scripts.
FORMER = "83b2209"
PORTS = (50515,)


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """The sources of the former version."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", FORMER], capture_output=True, check=False
    )
    if packed.returncode != 0:
        missing(f"commit {FORMER} (git fetch --unshallow): {packed.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=packed.stdout, check=True)
    return tmp_path


def launcher_of(space: Space, pod: str) -> list[str]:
    """The init containers by which the pod got its launcher, and its gate."""
    spec = next(each["spec"] for each in space.pods("world") if each["metadata"]["name"] == pod)
    return [container["name"] for container in spec["initContainers"]]


def test_a_job_of_the_version_before_is_taken_over_without_a_restart(
    space: Space, cluster: Cluster, former: Path
) -> None:
    present = archive("operator")
    operator = archive("operator", former)
    cluster.load([operator])
    try:
        install(cluster, operator, sources=former)
        before = running(space, replicas=3)
        space.apply(peers("named", "--forever", replicas=2, addressing="Hostname", backoffLimit=0))
        space.until_true("named", "PeersReady")
        named = identities(space, "named")
        assert launcher_of(space, "world-1") == ["dijob-gate"]
    finally:
        cluster.load([present])
        install(cluster, present)

    # The present operator shows that it has looked at these jobs: it counts a new pod's loss.
    space.kubectl("delete", "pod", "world-1", "--wait=false")
    until_healed(space, "world", before, {"world-1", "world-2"}, 2)
    assert how(space, before) == {"world-1": "anew", "world-2": "in place"}
    assert launcher_of(space, "world-1") == ["dijob-launcher", "dijob-gate"]
    assert launcher_of(space, "world-2") == ["dijob-gate"]
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    assert identities(space, "named") == named
    for job in ("world", "named"):
        status = space.status(job)
        assert (status["phase"], status.get("restarts", 0)) == ("Running", 0), status
