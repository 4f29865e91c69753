"""A newcomer's first commands, as README.md and docs/install.md print them, one page after the
other.
"""

import os
import re
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
    *commands(section("README.md", "Install it in a cluster")),
    *commands(section("docs/install.md")),
    *commands(section("docs/install.md", "The images")),
]
SECONDS = 600


@pytest.fixture
def shell() -> Iterator[dict[str, str]]:
    """The environment of a shell that knows no cluster. Its own has a developer's name
    elsewhere.
    """
    place = state.root().with_name(own("dijob-first-steps"))
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "PYTEST"))
    }
    env = {**inherited, "DIJOB_CLUSTER_DIR": str(place)}
    env.pop("KUBECONFIG", None)
    yield env
    subprocess.run(["make", "-s", "cluster-down"], cwd=ROOT, env=env, check=True)
    if place.exists():
        place.rmdir()


def test_the_commands_of_the_pages_work_as_printed_in_their_order(shell: dict[str, str]) -> None:
    typed = "\n".join(STEPS)
    for command in (
        "make cluster-up",
        "helm upgrade --install dijob charts/dijob",
        "kubectl logs test-0",
    ):
        assert typed.count(command) == 2, command
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
    assert len(re.findall(r"(?m)^Succeeded: all 3 ranks exited 0$", done.stdout)) == 2, done.stdout[
        -6000:
    ]
    assert set(re.findall(r"Get msg: Hi from node (\d)", done.stdout)) == set("12345")
    up = re.search(r"\[ *(\d+) s / ~\d+ s\] dijob is up;", done.stdout)
    measured("seconds of make cluster-up with the images", up[1] if up else "not said")
