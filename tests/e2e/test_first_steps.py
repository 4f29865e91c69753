"""The path of a new user, with exactly the commands of the pages: from the clone to a job that has
succeeded, an own script, a job that recovers, and its checkpoint on the laptop. Then come the first
steps of docs/install.md.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster import state
from pages import ROOT, commands, section
from space import measured
from workers import own

pytestmark = pytest.mark.e2e

# Pages whose commands run in one shell, in this order. test_autoscaler.py runs the last chapter of
# the quick start.
QUICK_START, _, _ = (
    (ROOT / "docs/quick-start.md")
    .read_text()
    .partition("## A learner, collectors and an autoscaler\n")
)
STEPS = [
    *commands(QUICK_START),
    *commands((ROOT / "docs/own-code.md").read_text()),
    *commands(section("docs/install.md")),
    *commands(section("docs/install.md", "The images")),
]
# The limit with two other test files running. Alone, these steps take a third of this time.
SECONDS = 1500


@dataclass(frozen=True)
class Stranger:
    """A shell in an empty folder, with an environment that has no cluster and no modules of the
    tests.
    """

    folder: Path
    env: dict[str, str]

    @property
    def clone(self) -> Path:
        """Return the clone of the quick start: the committed files, without build results."""
        return self.folder / "dijob"

    def types(self, text: str) -> tuple[int, str]:
        """Run commands in bash until one fails. Return the exit code and all output."""
        said = self.folder / "said"
        with said.open("w") as out:
            done = subprocess.run(
                ["bash", "-euxo", "pipefail", "-c", text.replace("REPOSITORY", str(ROOT))],
                cwd=self.folder,
                env=self.env,
                stdout=out,
                stderr=out,
                timeout=SECONDS,
                check=False,
            )
        return done.returncode, said.read_text()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    """Yield a new user, whose cluster has a different name from a developer's."""
    place = state.root().with_name(own("dijob-first-steps"))
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "PYTEST"))
    }
    env = {**inherited, "DIJOB_CLUSTER_DIR": str(place)}
    for name in ("KUBECONFIG", "PYTHONPATH"):
        env.pop(name, None)
    made = Stranger(tmp_path, env)
    yield made
    # 200 MB, mostly the virtual environment of the command line.
    shutil.rmtree(made.clone, ignore_errors=True)
    subprocess.run(["make", "-s", "cluster-down"], cwd=ROOT, env=env, check=True)
    if place.exists():
        place.rmdir()


def test_the_commands_of_the_pages_work_as_printed_in_their_order(stranger: Stranger) -> None:
    typed = "\n".join(STEPS)
    for command in (
        "git clone REPOSITORY dijob\ncd dijob",
        "make cluster-up",
        "helm upgrade --install dijob charts/dijob",
        "kubectl dijob watch test",
        "kubectl dijob scale endless",
        "kubectl delete pod endless-1",
        "kubectl dijob cp endless:0:/tmp/best.json best.json",
        "kubectl dijob run mine",
        "kubectl logs test-0",
    ):
        assert command in typed
    code, output = stranger.types(typed)
    assert code == 0, output[-6000:]
    # Each page waits for the job's end, prints the result, and shows the log.
    for said in (
        "test: Succeeded: all 3 ranks exited 0",
        "Succeeded: all 3 ranks exited 0",
        "search: Succeeded: all 2 ranks exited 0",
        "mine: Succeeded: all 3 ranks exited 0",
    ):
        assert re.search(rf"(?m)^{said}$", output), output[-6000:]
    assert set(re.findall(r"Get msg: Hi from node (\d)", output)) == set("12345")
    # The script that is scaled up, loses a pod, and whose checkpoint is copied; and the own script.
    for said in (
        "the target of 475 is reached",
        "by 3 processes",
        "PodDeleted",
        "PeersReady",
        "pi is about 3.1",
    ):
        assert said in output, output[-6000:]
    assert json.loads((stranger.clone / "best.json").read_text())["generation"] > 0
    up = re.search(r"\[ *(\d+) s / ~\d+ s\] dijob is up;", output)
    measured("seconds of make cluster-up with the images", up[1] if up else "not said")
