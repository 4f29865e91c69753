"""A newcomer's first commands, as docs/quick-start.md, docs/tutorial.md and docs/install.md print
them, one page after the other.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from cluster import state
from pages import ROOT, commands, section
from space import measured
from workers import own

pytestmark = pytest.mark.e2e

# What is typed in one shell, in this order.
STEPS = [
    *commands((ROOT / "docs/quick-start.md").read_text()),
    *commands((ROOT / "docs/tutorial.md").read_text()),
    *commands(section("docs/install.md")),
    *commands(section("docs/install.md", "The images")),
]
# What the pages leave in the folder in which they are typed.
RESULT, ENVIRONMENT = ROOT / "best.json", ROOT / ".venv"
# Beside two other files of tests; alone it takes a third of it.
SECONDS = 1500


@pytest.fixture
def shell() -> Iterator[dict[str, str]]:
    """The environment of a shell that knows no cluster, and none of the tests' modules. Its own
    cluster has a developer's name elsewhere.
    """
    place = state.root().with_name(own("dijob-first-steps"))
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "PYTEST"))
    }
    env = {**inherited, "DIJOB_CLUSTER_DIR": str(place)}
    for name in ("KUBECONFIG", "PYTHONPATH"):
        env.pop(name, None)
    kept = ENVIRONMENT.exists()
    yield env
    RESULT.unlink(missing_ok=True)
    if not kept:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.run(["make", "-s", "cluster-down"], cwd=ROOT, env=env, check=True)
    if place.exists():
        place.rmdir()


def test_the_commands_of_the_pages_work_as_printed_in_their_order(shell: dict[str, str]) -> None:
    typed = "\n".join(STEPS)
    for command in (
        "make cluster-up",
        "helm upgrade --install dijob charts/dijob",
        "kubectl dijob watch test",
        "kubectl dijob scale endless",
        "kubectl logs test-0",
    ):
        assert command in typed
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", typed],
        cwd=ROOT,
        env=shell,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    # Each page waits for the job's end, prints how it ended, and shows its log.
    for said in (
        "test: Succeeded: all 3 ranks exited 0",
        "Succeeded: all 3 ranks exited 0",
        "search: Succeeded: all 2 ranks exited 0",
    ):
        assert re.search(rf"(?m)^{said}$", done.stdout), done.stdout[-6000:]
    assert set(re.findall(r"Get msg: Hi from node (\d)", done.stdout)) == set("12345")
    # The script that grows, loses a pod, and gives its result away.
    for said in ("the target of 475 is reached", "by 3 processes", "PodDeleted", "PeersReady"):
        assert said in done.stdout, done.stdout[-6000:]
    assert json.loads(RESULT.read_text())["generation"] > 0
    up = re.search(r"\[ *(\d+) s / ~\d+ s\] dijob is up;", done.stdout)
    measured("seconds of make cluster-up with the images", up[1] if up else "not said")
