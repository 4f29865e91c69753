"""An interrupted test run with workers leaves no cluster behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import state
from cluster.process import recorded
from cluster.waiting import until

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
NAME = "dijob-interrupted"
# A test that does not end and ignores an interruption, as one that waits in C code.
ENDLESS = f'''
import signal, threading, pytest
from cluster import CONTROL_PLANE, Options, up
from workers import own

@pytest.mark.parametrize("number", [1, 2])
def test_endless(number):
    with up(Options(own("{NAME}"), CONTROL_PLANE, kwok_nodes=0, quiet=True)):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Event().wait()
'''


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_removes_the_clusters_of_its_workers(
    tmp_path: Path, number: signal.Signals
) -> None:
    module = tmp_path / "test_endless.py"
    module.write_text(ENDLESS)
    places = [state.folder(f"{NAME}-gw{worker}") for worker in range(2)]
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-c", f"{ROOT}/pyproject.toml"]
    with (tmp_path / "output").open("w") as output:
        run = subprocess.Popen(
            [*command, "--rootdir", str(tmp_path), "-p", "run_setup", "-p", "workers", str(module)],
            cwd=ROOT,
            env=variables,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def not_up() -> str:
        assert run.poll() is None, (tmp_path / "output").read_text()
        up = [place for place in places if "kube-apiserver" in recorded(place)]
        return "" if up == places else f"up: {up}"

    until("both workers have started a control plane", not_up, 200)
    run.send_signal(number)
    assert run.wait(200) == pytest.ExitCode.INTERRUPTED, (tmp_path / "output").read_text()
    assert [place for place in places if place.exists()] == []
