"""The last chapter of the tutorial, with exactly its commands: a HorizontalPodAutoscaler adds
collectors to a real DQN and removes them, and the learner is deleted and resumes.

The autoscaler is that of kube-controller-manager. It reads the signal through the example's adapter
for external metrics.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from archives import ROOT
from identity import identities
from jobs import EXAMPLES
from pages import commands, section
from space import Space, measured

pytestmark = [pytest.mark.e2e, pytest.mark.long]

NAME = "cartpole-tasks"
LEARNER, EVALUATOR = f"{NAME}-learner-0", f"{NAME}-evaluator-0"
SECONDS = 600

Shell = Callable[[str], str]


@pytest.fixture
def shell(space: Space, tmp_path: Path) -> Iterator[Shell]:
    """Yield a function that runs commands of the page in a folder with the chart and the examples,
    with `kubectl dijob`. The default namespace is that of the test.
    """
    for name in ("charts", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    plugin = tmp_path / "kubectl-dijob"
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -m dijob.cli.main "$@"\n')
    plugin.chmod(0o755)
    config = shutil.copy(space.cluster.kubeconfig, tmp_path / "kubeconfig")
    env = {**os.environ, **space.cluster.env(), "KUBECONFIG": str(config)}
    env |= {"PATH": f"{tmp_path}:{env['PATH']}", "PYTHONPATH": str(ROOT / "operator")}

    def run(text: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=tmp_path,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}"
        return done.stdout

    run(f"kubectl config set-context --current --namespace={space.name}")
    try:
        yield run
    finally:
        # An API that does not respond would block the deletion of every namespace.
        delete = ("delete", "--ignore-not-found", "--wait=false")
        space.cluster.run_kubectl(*delete, "-f", str(EXAMPLES / "metrics-adapter.yaml"))
        space.cluster.run_kubectl(*delete, "pv/cartpole")


def test_an_autoscaler_follows_the_waiting_time_of_the_learner(space: Space, shell: Shell) -> None:
    page = section("docs/quick-start.md", "A learner, collectors and an autoscaler")
    provision, start, progress, scale_up, kill, scale_down, clean_up = commands(page)
    shell(provision)
    shell(start)
    measured("progress at the start of the autoscaling", shell(progress))
    before = identities(space, NAME)
    assert len(before) == 4

    measured("the autoscaler, which has added a collector", shell(scale_up))
    grown = identities(space, NAME)
    assert grown.keys() - before.keys() == {f"{NAME}-collector-2"}
    assert {name: grown[name] for name in before} == before, "the other ranks keep running"

    lost = shell(kill)
    measured("the learner's loss", lost)
    assert int(re.findall(r"Resumed from iteration (\d+)", lost)[-1]) > 0
    killed = identities(space, NAME)
    assert killed[LEARNER][0] != before[LEARNER][0]

    measured("the autoscaler, which has removed a collector", shell(scale_down))
    shrunk = identities(space, NAME)
    for name in (LEARNER, EVALUATOR):
        assert shrunk[name] == killed[name], "no rank restarts when a collector leaves"
    status = space.status(NAME)
    assert (status.get("restarts", 0), status["renewals"]) == (0, 1)
    shell(clean_up)
