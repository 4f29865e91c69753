"""The end of `dijob local`: no process is left behind, and ranks that keep running are named."""

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from cluster.waiting import until_true
from dijob.cli.errors import Exit
from dijob_extras.local import plan, waiting
from dijob_extras.local import run as local_run
from dijob_extras.local.ledger import LocalFailureAccount
from dijob_extras.local.waiting import RunningRank
from samples.builders import job
from unit.extras.local_runs import ROOT, alive, finished, script

STAYS = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("up", flush=True)
"""


def test_a_process_that_left_its_group_is_killed_when_the_rank_ends(run: Any) -> None:
    code, out, err = finished(run(script("stays", STAYS)))
    assert (code, out.count("up")) == (Exit.OK, 2), err


def test_a_process_that_left_its_group_is_killed_with_the_rank(run: Any) -> None:
    process = run(script("stays", STAYS + "time.sleep(600)"))
    for _ in range(2):
        assert process.stdout.readline().endswith("| up\n")
    process.send_signal(signal.SIGINT)
    code, _, err = finished(process)
    assert code == 130, err


def test_a_timeout_ends_the_run(run: Any) -> None:
    code, _, err = finished(run(script("slow", "import time; time.sleep(600)"), "--timeout", "1"))
    said = (
        r"Error: the job did not finish within --timeout 1; still running: rank 0"
        r" \(process \d+, for \d+ s\), rank 1 \(process \d+, for \d+ s\)\n"
    )
    assert (code, bool(re.fullmatch(said, err))) == (Exit.TIMED_OUT, True), err


def test_the_jobs_deadline_fails_the_run(run: Any) -> None:
    text = script("late", "import time; time.sleep(600)", activeDeadlineSeconds=1)
    code, _, err = finished(run(text))
    assert code == Exit.FAILED
    assert "within activeDeadlineSeconds (1)" in err


# It uses sigwait, because a signal handler must not print while the main thread does.
SAVES = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("up", flush=True)
signal.sigwait({signal.SIGTERM})
print("saved", flush=True)
"""


def test_ctrl_c_ends_all_ranks_gracefully(run: Any) -> None:
    process = run(script("told", SAVES))
    for _ in range(2):
        assert process.stdout.readline().endswith("| up\n")
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    assert (code, err.splitlines()[-1]) == (130, "dijob: stopped by SIGINT")
    assert out.count("saved") == 2


DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + (
    "print('up', flush=True)\ntime.sleep(600)\n"
)


def test_a_second_ctrl_c_kills_ranks_that_ignore_sigterm(run: Any, tmp_path: Path) -> None:
    process = run(script("deaf", DEAF, replicas=1))
    assert process.stdout.readline().endswith("| up\n")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == (
        "dijob: SIGINT: the ranks have 30 s to exit; a second signal kills them\n"
    )
    assert any("main.py" in line for line in alive(tmp_path))
    process.send_signal(signal.SIGINT)
    until_true("it has ended", lambda: process.poll() is not None, 20)  # less than the 30 s
    assert finished(process)[0] == 130


STILL = [
    pytest.param([], "SIGTERM", "", "", id="none"),
    pytest.param(
        [RunningRank(1, 71, 65.4)],
        "rank 0 (a-0) exited 0",
        "",
        "30 s after rank 0 (a-0) exited 0, still running: rank 1 (process 71, for 65 s)",
        id="one",
    ),
    pytest.param(
        [RunningRank(0, 70, 7), RunningRank(2, 72, 6)],
        "SIGTERM",
        "ranks that are still running are killed after 40 s",
        "30 s after SIGTERM, still running: rank 0 (process 70, for 7 s),"
        " rank 2 (process 72, for 6 s); ranks that are still running are killed after 40 s",
        id="two after SIGTERM",
    ),
]


@pytest.mark.parametrize(("left", "since", "then", "said"), STILL)
def test_the_report_about_running_ranks(
    left: list[RunningRank], since: str, then: str, said: str
) -> None:
    assert waiting.report_running(left, since, 30, then) == said


def started(text: str) -> list[plan.Start]:
    """Return two ranks that run a Python program."""
    found = []
    for rank in range(2):
        mark = {plan.MARK: f"test-{os.getpid()}-{rank}.", "R": str(rank)}
        env = {"PATH": os.environ["PATH"], **mark}
        words = ("python3", "-c", text)
        found.append(plan.Start(rank, f"rank {rank}", f"a-{rank}", words, env, ROOT))
    return found


ONE_STAYS = "import os, time\nif os.environ['R'] == '1':\n    time.sleep(600)"


def said_until(text: str, *marked: str) -> list[str]:
    """Return the messages of a run. Ctrl-C is sent at the second line that contains the first mark,
    and again at the first line that contains the next one.
    """
    said: list[str] = []
    missing = [marked[0], *marked]

    def show(_: plan.Start | None, line: str) -> None:
        said.append(line)
        if missing and missing[0] in line:
            del missing[0]
            if len(missing) < len(marked):
                os.kill(os.getpid(), signal.SIGINT)

    limits = local_run.Limits(timeout=60, grace=30)
    run = local_run.Run(started(text), LocalFailureAccount(job(replicas=2)), limits, show)
    assert asyncio.run(run.run()).how == local_run.INTERRUPTED, said
    return said


def test_a_rank_that_keeps_running_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_run, "FIRST_SECONDS", 0.2)
    said = said_until(ONE_STAYS, "still running")
    form = r"\d+ s after rank 0 \(a-0\) exited 0, still running: rank 1 \(process \d+, for \d+ s\)"
    assert all(re.fullmatch(form, one) for one in said[:2]), said


def test_a_rank_that_ignores_sigterm_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_run, "ENDING_SECONDS", 0.2)
    said = said_until(DEAF, "up", "still running:")
    form = (
        r"\d+ s after SIGTERM, still running: rank 0 \(process \d+, for \d+ s\),"
        r" rank 1 \(process \d+, for \d+ s\); ranks that are still running are killed after 30 s"
    )
    assert any(re.fullmatch(form, one) for one in said), said


def test_the_run_ends_when_stdout_is_closed(run: Any) -> None:
    process = run(script("talks", "while True:\n    print('word' * 1000, flush=True)\n"))
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "dijob: stopped because stdout was closed\n"
    assert process.wait(60) == 130
