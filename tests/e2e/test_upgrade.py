"""Jobs that an operator of a former version has started go on under the present one, and back."""

import re
import subprocess
from itertools import count
from pathlib import Path

import pytest
from archives import ROOT, archive
from cluster import Cluster
from dijob import __version__
from identity import Identity, how, identities, running, until_healed
from jobs import peers, shell
from pod.boxes import missing
from release import install
from sockets import mesh, until_edges
from space import Body, Space, measured

pytestmark = [pytest.mark.e2e, pytest.mark.long]

# The newest release.
VERSION, FORMER = re.findall(
    r"^\| ([0-9.]+) \| [0-9-]+ \| ([0-9a-f]{12}) \|",
    (ROOT / "docs/releases.md").read_text(),
    re.MULTILINE,
)[-1]
PORTS = (50515,)
JOBS = 20


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


def others() -> list[Body]:
    """Jobs of each kind, which nobody touches: with "world" they are JOBS."""
    forever = "exec sleep infinity"
    kinds: list[Body] = [
        peers("named", "--forever", addressing="Hostname"),
        peers("star", "--forever", topology="star"),
        peers("wide", "--forever", parallelWorkers=2),
        peers("elastic", "--forever", minReplicas=1, maxReplicas=3),
        shell("alone", forever, replicas=1, topology="alone"),
        shell("torch", forever, runtime="torch"),
        shell("slurm", forever, runtime="slurm"),
        shell("redis", forever, messageQueue={"type": "redis"}),
        shell("renewed", forever, backoffLimit=3, launcher="Off"),
    ]
    more = (peers(f"more-{number}", "--forever") for number in count())
    return [*kinds, *(next(more) for _ in range(JOBS - 1 - len(kinds)))]


def states(space: Space, jobs: list[str]) -> dict[str, dict[str, Identity]]:
    """Who runs, in each of the jobs."""
    return {job: identities(space, job) for job in jobs}


def test_twenty_jobs_of_the_release_are_taken_over_and_given_back_without_a_restart(
    space: Space, cluster: Cluster, former: Path
) -> None:
    present = archive("operator")
    operator, launcher = archive("operator", former), archive("launcher", former)
    cluster.load([operator, launcher])
    old, new = f"dijob/launcher:{VERSION}", f"dijob/launcher:{__version__}"
    bodies = others()
    names = [body["metadata"]["name"] for body in bodies]
    try:
        install(cluster, operator, sources=former)
        begun = running(space, replicas=3)
        space.apply(*bodies)
        for name in names:
            space.until_true(name, "Running", 300)
        before = states(space, names)
        install(cluster, present)
        # An operator shows that it has looked at these jobs: it counts a pod's loss.
        after = lost(space, begun, 1, {"world-1": "anew", "world-2": "in place"}, 2)
        assert (launcher_of(space, "world-1"), launcher_of(space, "world-2")) == (new, old)
        assert states(space, names) == before
        install(cluster, operator, sources=former)
        lost(space, after, 2, {"world-2": "anew"}, 3)
        assert states(space, names) == before
    finally:
        install(cluster, present)
    measured("jobs that went to the next version and back", f"{len(names) + 1}")
    assert states(space, names) == before
    for job in (*names, "world"):
        status = space.status(job)
        assert (status["phase"], status.get("restarts", 0)) == ("Running", 0), (job, status)


def lost(
    space: Space, before: dict[str, Identity], rank: int, changed: dict[str, str], number: int
) -> dict[str, Identity]:
    """A rank is lost and comes back with this list; those that dial it start again in their
    pods.
    """
    space.kubectl("delete", "pod", f"world-{rank}", "--wait=false")
    until_healed(space, "world", before, set(changed), number)
    assert how(space, before) == changed
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    return identities(space, "world")
