"""Jobs that an operator of a former version has started go on under the present one."""

import re
import subprocess
from pathlib import Path

import pytest
from archives import ROOT, archive
from cluster import Cluster
from dijob import __version__
from identity import Identity, how, identities, running, until_healed
from jobs import peers
from pod.boxes import missing
from release import install
from sockets import mesh, until_edges
from space import Space

pytestmark = [pytest.mark.e2e, pytest.mark.long]

# The newest release.
VERSION, FORMER = re.findall(
    r"^\| ([0-9.]+) \| [0-9-]+ \| ([0-9a-f]{12}) \|",
    (ROOT / "docs/releases.md").read_text(),
    re.MULTILINE,
)[-1]
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


def launcher_of(space: Space, pod: str) -> str:
    """The image from which the pod got its launcher."""
    spec = next(each["spec"] for each in space.pods("world") if each["metadata"]["name"] == pod)
    image: str = spec["initContainers"][0]["image"]
    return image


def test_jobs_of_the_release_are_taken_over_and_given_back_without_a_restart(
    space: Space, cluster: Cluster, former: Path
) -> None:
    present = archive("operator")
    operator, launcher = archive("operator", former), archive("launcher", former)
    cluster.load([operator, launcher])
    old, new = f"dijob/launcher:{VERSION}", f"dijob/launcher:{__version__}"
    try:
        install(cluster, operator, sources=former)
        before = running(space, replicas=3)
        space.apply(peers("named", "--forever", replicas=2, addressing="Hostname", backoffLimit=0))
        space.until_true("named", "PeersReady")
        named = identities(space, "named")
        assert launcher_of(space, "world-1") == old
        install(cluster, present)
        # An operator shows that it has looked at these jobs: it counts a pod's loss.
        after = lost(space, before, 2)
        assert (launcher_of(space, "world-1"), launcher_of(space, "world-2")) == (new, old)
        assert identities(space, "named") == named
        install(cluster, operator, sources=former)
        lost(space, after, 3)
        assert identities(space, "named") == named
    finally:
        install(cluster, present)
    for job in ("world", "named"):
        status = space.status(job)
        assert (status["phase"], status.get("restarts", 0)) == ("Running", 0), status


def lost(space: Space, before: dict[str, Identity], number: int) -> dict[str, Identity]:
    """Rank 1 is lost and comes back with this list; rank 2, which dials it, starts again in its
    pod.
    """
    space.kubectl("delete", "pod", "world-1", "--wait=false")
    until_healed(space, "world", before, {"world-1", "world-2"}, number)
    assert how(space, before) == {"world-1": "anew", "world-2": "in place"}
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    return identities(space, "world")
