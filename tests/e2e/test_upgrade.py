"""Jobs of the previous version continue under the current operator, and after a downgrade."""

from pathlib import Path

import pytest
from archives import archive
from cluster import Cluster
from dijob import __version__
from everykind import jobs, names
from everykind import running as all_running
from former import VERSION, unpack
from identity import Identity, how, identities, running, until_healed
from release import install
from sockets import mesh, until_edges
from space import Space, measured

pytestmark = [pytest.mark.e2e, pytest.mark.long]

PORTS = (50515,)
JOBS = 20
# The name of the init container, or of the image volume.
LAUNCHER = "dijob-launcher"


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """Return the sources of the previous version."""
    unpack(tmp_path)
    return tmp_path


def launcher_of(space: Space, pod: str) -> str:
    """Return the image from which a pod got its launcher."""
    job = pod.rpartition("-")[0]
    spec = next(each["spec"] for each in space.pods(job) if each["metadata"]["name"] == pod)
    installers = (one for one in spec.get("initContainers") or () if one["name"] == LAUNCHER)
    mounted = (one["image"]["reference"] for one in spec["volumes"] if one["name"] == LAUNCHER)
    image: str = next((one["image"] for one in installers), "") or next(mounted)
    return image


def test_twenty_jobs_survive_an_upgrade_and_a_downgrade_without_a_restart(
    space: Space, cluster: Cluster, former: Path
) -> None:
    present = archive("operator")
    operator, launcher = archive("operator", former), archive("launcher", former)
    cluster.load([operator, launcher])
    old, new = f"dijob/launcher:{VERSION}", f"dijob/launcher:{__version__}"
    bodies = jobs(JOBS - 1)
    kinds = names(bodies)
    try:
        install(cluster, operator, sources=former)
        begun = running(space, replicas=3)
        space.apply(*bodies)
        for name in kinds:
            space.until_true(name, "Running", 300)
        before = all_running(space, kinds)
        # The previous version re-creates pods that have a channel (docs/install.md).
        install(cluster, present, "launcher.channel=false")
        # When an operator has counted a pod's loss, it has reconciled these jobs.
        after = lost(space, begun, 1, {"world-1": "re-created", "world-2": "in place"}, 2)
        assert (launcher_of(space, "world-1"), launcher_of(space, "world-2")) == (new, old)
        assert all_running(space, kinds) == before
        install(cluster, operator, sources=former)
        lost(space, after, 2, {"world-2": "re-created"}, 3)
        assert all_running(space, kinds) == before
    finally:
        install(cluster, present)
    measured("jobs that went to the next version and back", f"{JOBS}")
    assert all_running(space, kinds) == before
    for job in (*kinds, "world"):
        status = space.status(job)
        assert (status["phase"], status.get("restarts", 0)) == ("Running", 0), (job, status)


def lost(
    space: Space, before: dict[str, Identity], rank: int, changed: dict[str, str], number: int
) -> dict[str, Identity]:
    """Delete a rank, and wait until it is replaced with this revision and the ranks that dial it
    have restarted in their pods.
    """
    space.kubectl("delete", "pod", f"world-{rank}", "--wait=false")
    until_healed(space, "world", before, set(changed), number)
    assert how(space, before) == changed
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    return identities(space, "world")
