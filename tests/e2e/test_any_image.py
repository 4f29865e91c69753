"""Users' images: without a base image, with busybox only, Debian's with dash and bash, and an image
that can be pulled only later.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from archives import archive
from cluster import Cluster
from cluster.build import find_go, go_environment
from cluster.images import BUSYBOX, busybox_archive, write_archive
from cluster.shell import Progress
from dijob.core.options import Delivery
from jobs import LIGHT, REQUESTS, job
from release import install
from space import Body, Space, measured, waits_for_list

pytestmark = pytest.mark.e2e

LAUNCHER = "dijob-launcher"
SOURCES = Path(__file__).parent / "printer"
SCRATCH = "dijob.local/scratch:1"
LATE = "127.0.0.1:9/late:1"  # no registry listens there
# The script of each shell: it prints its variables, and waits for SIGTERM.
WORLD = "env | grep ^DI_; exec sleep 3600"
APPLETS = "busybox env | busybox grep ^DI_; exec busybox sleep 3600"
RANKS: dict[str, tuple[str, list[str]]] = {
    "scratch": (SCRATCH, ["/program"]),
    "busybox": (BUSYBOX, ["/bin/busybox", "sh", "-c", APPLETS]),
    "dash": (LIGHT, ["/bin/dash", "-c", WORLD]),
    "bash": (LIGHT, ["/bin/bash", "-c", WORLD]),
}


def printer(folder: Path) -> bytes:
    """Return a static program that prints its variables."""
    made = folder / "printer"
    command = [find_go(Progress(10)), "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), "."]
    done = subprocess.run(
        command, cwd=SOURCES, env=go_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return made.read_bytes()


def one_task_each(name: str, ranks: dict[str, tuple[str, list[str]]]) -> Body:
    """Return a job in which each rank has its own image and command."""
    made = job(name, {})
    for key in ("template", "replicas"):
        made["spec"].pop(key)
    made["spec"]["tasks"] = [
        {"type": "none", "name": task, "replicas": 1, "template": template(image, command)}
        for task, (image, command) in ranks.items()
    ]
    return made


def template(image: str, command: list[str]) -> Body:
    main = {"image": image, "imagePullPolicy": "IfNotPresent", "command": command, **REQUESTS}
    return {"spec": {"containers": [{"name": "di-container", **main}]}}


TOLD = {"DI_RANK", "DI_NODES", "DI_NODE_IPS", "DI_WORLD_SIZE"}


def world_of(space: Space, pod: str) -> dict[str, str]:
    """Return the DI_ variables that a pod's program has printed."""
    found: dict[str, str] = {}

    def lacking() -> str:
        found.update(line.partition("=")[::2] for line in space.logs(pod).splitlines())
        return f"{TOLD - found.keys()}" if TOLD - found.keys() else ""

    space.until(f"{pod} prints its world", lacking, 120)
    return found


@pytest.fixture(params=[Delivery.AUTO, Delivery.INIT_CONTAINER])
def delivery(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Delivery]:
    """Restart the operator with another delivery of the launcher. AUTO, the default, means image
    volumes on this cluster.
    """
    how: Delivery = request.param
    if how is not Delivery.AUTO:
        install(cluster, archive("operator"), f"launcher.delivery={how}")
    yield how
    if how is not Delivery.AUTO:
        install(cluster, archive("operator"))


def test_images_with_any_shell_and_without_one_are_ranks(
    space: Space, tmp_path: Path, delivery: Delivery
) -> None:
    files = {"/program": printer(tmp_path)}
    scratch = write_archive(tmp_path / "scratch.tar", SCRATCH, files, ["/program"])
    space.cluster.load([scratch, busybox_archive(tmp_path / "busybox")])
    space.apply(one_task_each("world", RANKS))
    space.until_true("world", "PeersReady")
    ips = space.ips("world")
    for rank, pod in enumerate(space.names("world")):
        told = world_of(space, pod)
        assert (told["DI_RANK"], told["DI_NODES"]) == (str(rank), ",".join(ips)), pod
        assert (told["DI_NODE_IPS"], told["DI_WORLD_SIZE"]) == (",".join(ips), "4"), pod
    ours = {LAUNCHER} if delivery is Delivery.INIT_CONTAINER else set()
    for body in space.pods("world"):
        inits = body["status"].get("initContainerStatuses") or ()
        assert {each["name"] for each in inits} == ours
    assert space.status("world").get("restarts", 0) == 0


@pytest.mark.parametrize("seconds", [15, pytest.param(90, marks=pytest.mark.long)])
def test_a_late_image_delays_every_program_and_is_not_a_failure(
    space: Space, tmp_path: Path, seconds: int
) -> None:
    late = f"{LATE}-{seconds}"
    stay = ["/bin/bash", "-c", WORLD]
    space.apply(one_task_each("world", {"here": (LIGHT, stay), "late": (late, ["/program"])}))
    missing = f"image {late} cannot be pulled"

    def silent() -> str:
        said = space.condition("world", "AddressesReady").get("message", "")
        return "" if missing in said and said.startswith("rank 1: ") else f"it says {said!r}"

    space.until("the condition names the rank and its image", silent, 120)
    begin = time.monotonic()
    space.until("it is late", lambda: still_early(space, begin, seconds), seconds + 30)
    files = {"/program": printer(tmp_path)}
    space.cluster.load([write_archive(tmp_path / "late.tar", late, files, ["/program"])])
    # The kubelet retries with a pause that doubles each time.
    waited = space.until_true("world", "PeersReady", 2 * seconds + 180)
    measured(f"seconds from the image, {seconds} s late, to a whole world", f"{waited:.1f}")
    status = space.status("world")
    assert (status["listNumber"], status.get("restarts", 0)) == (1, 0), status
    for pod in space.pods("world"):
        assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0]


def still_early(space: Space, begin: float, seconds: int) -> str:
    """Check for some seconds that no program runs and that there is no peer list."""
    here, _ = space.pods("world")
    assert waits_for_list(here), here["status"]
    assert "DI_RANK" not in space.logs(here["metadata"]["name"])
    assert not space.status("world").get("listNumber"), space.status("world")
    left = seconds - (time.monotonic() - begin)
    return f"{left:.0f} s are left" if left > 0 else ""
