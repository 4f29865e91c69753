"""X2: after a failure, the restarted launcher waits until the operator has counted it. If the
container is ended instead, its log shows the output of the failed run.
"""

import json
import os
import signal
import subprocess

from cluster.waiting import until_true
from pod.boxes import PID_NAMESPACE, Box
from pod.processes import LISTEN, WHERE, end, first_process, line, python

IPS = "10.0.0.1,10.0.0.2"
# A container that the kubelet restarts (restartPolicy OnFailure), with a timeout that no test
# reaches.
RANK = {"DI_RANK": "1", "DIJOB_RESTART_POLICY": "OnFailure", "DIJOB_CONFIRM_SECONDS": "60"}
FAILS = ["sh", "-c", "echo start; echo here is what went wrong >&2; exit 3"]


def run(box: Box, command: list[str], **env: str) -> tuple[int, str, str]:
    return box.run(command, **RANK | env)


def waiting(box: Box, command: list[str], **env: str) -> subprocess.Popen[str]:
    """Start the launcher after a failure, and return it while it waits."""
    process = box.start(command, **RANK | env)
    until_true("it waits", lambda: "waiting until the operator has counted" in box.err())
    return process


def counted(box: Box) -> int:
    """Return the count that the launcher has stored for the next launcher."""
    found: int = json.loads((box.path / "last-run/run.json").read_text())["counted"]
    return found


@WHERE
def test_after_a_failure_the_program_starts_when_it_is_counted(
    box: Box, namespace: list[str]
) -> None:
    box.shows("3", IPS)
    command = [*namespace, box.launch, *FAILS]
    assert run(box, command)[:2] == (3, "start\n")
    process = waiting(box, command)
    box.shows("3", IPS, ends_counted="1")
    # The output of the failed run, repeated because the wait is long, and that of the new run.
    log = ["here is what went wrong", "start", "start"]
    code, output = end(process)
    assert (code, sorted(output)) == (3, log)
    # The next launcher waits for the next count, not for the one that has already been reached.
    process = waiting(box, command)
    box.shows("3", IPS, ends_counted="2")
    code, output = end(process)
    assert (code, sorted(output)) == (3, log)


@WHERE
def test_a_container_that_is_ended_instead_shows_the_output_of_the_failed_run(
    box: Box, namespace: list[str]
) -> None:
    """The program does not start a second time, and the exit code is that of the failed run."""
    box.shows("3", IPS)
    command = [*namespace, box.launch, *FAILS]
    run(box, command)
    process = waiting(box, command)
    os.kill(first_process(process, namespace), signal.SIGTERM)
    code, log = end(process)
    assert (code, sorted(log)) == (3, ["here is what went wrong", "start"])
    assert "the program is not restarted\n" in box.err()


@WHERE
def test_a_long_wait_shows_the_output_of_the_failed_run(box: Box, namespace: list[str]) -> None:
    """Linux drops a SIGTERM that arrives before the launcher has a handler. SIGKILL follows."""
    box.shows("3", IPS)
    command = [*namespace, box.launch, *FAILS]
    run(box, command)
    process = waiting(box, command)
    assert sorted([line(process), line(process)]) == ["here is what went wrong", "start"]
    os.kill(first_process(process, namespace), signal.SIGKILL)
    end(process)


FAILS_THEN_LISTENS = f"""
import os, sys
if not os.path.exists("crashed"):
    open("crashed", "w").close()
    print("here is what went wrong", flush=True)
    sys.exit(3)
{LISTEN}
"""


@WHERE
def test_a_later_run_that_gets_sigterm_shows_the_output_of_the_failed_run(
    box: Box, namespace: list[str]
) -> None:
    """The last failure is that of another rank. By then, this rank's program is running again."""
    box.shows("3", IPS)
    command = [*namespace, box.launch, *python(FAILS_THEN_LISTENS)]
    assert run(box, command)[0] == 3
    process = waiting(box, command)
    box.shows("3", IPS, ends_counted="1")
    assert [line(process), line(process)] == ["here is what went wrong", "ready"]
    os.kill(first_process(process, namespace), signal.SIGTERM)
    code, log = end(process)
    assert (code, sorted(log)) == (7, ["SIGTERM", "here is what went wrong", "saved"])
    assert "the last failed run in this container (exit code 3)" in box.err()


@WHERE
def test_a_start_for_a_new_list_waits_for_nothing(box: Box, namespace: list[str]) -> None:
    box.shows("3", IPS)
    command = [*namespace, box.launch, *python(LISTEN)]
    process = box.start(command, **RANK | {"DIJOB_NAP": "0.05"})
    assert line(process) == "ready"
    box.shows("5", IPS, "5")
    assert line(process) == "SIGTERM"
    assert end(process)[0] == 85
    process = box.start(command, **RANK)
    assert line(process) == "ready"
    # A requested restart is counted, too. A failure after it needs another count.
    box.shows("5", IPS, "5", ends_counted="1")
    until_true("the launcher has noticed the count", lambda: counted(box) == 1)
    os.kill(first_process(process, namespace), signal.SIGTERM)
    assert end(process)[0] == 7
    again = waiting(box, command)
    box.shows("5", IPS, "5", ends_counted="2")
    repeated = ["ready", "SIGTERM", "saved"]
    assert [line(again) for _ in [*repeated, "ready"]] == [*repeated, "ready"]
    os.kill(first_process(again, namespace), signal.SIGTERM)
    end(again)


def test_a_program_that_was_killed_with_its_launcher_is_waited_for_too(box: Box) -> None:
    """When memory is exhausted, the kernel kills all processes of the container."""
    box.shows("3", IPS)
    process = box.start([*PID_NAMESPACE, box.launch, *python(LISTEN)], **RANK)
    assert line(process) == "ready"
    os.kill(first_process(process, PID_NAMESPACE), signal.SIGKILL)
    end(process)
    process = waiting(box, [box.launch, *FAILS])
    process.terminate()
    code, log = end(process)
    assert (code, log) == (137, ["ready"])


def test_the_gate_of_a_new_sandbox_forgets_the_failure(box: Box) -> None:
    box.shows("3", IPS)
    run(box, [box.launch, *FAILS])
    gate = str(box.bin / "gate")
    assert box.run([gate], DI_RANK="1", DI_POD_IP="10.0.0.2")[0] == 0
    assert run(box, [box.launch, *FAILS])[:2] == (3, "start\n")


def test_a_program_that_is_missing_is_a_failure_that_is_shown(box: Box) -> None:
    box.shows("3", IPS)
    assert run(box, [box.launch, "no-such-program"])[0] == 127
    process = waiting(box, [box.launch, "no-such-program"])
    process.terminate()
    code, log = end(process)
    assert code == 127
    assert any("program not found" in one for one in log)


def test_a_second_launcher_in_the_container_does_not_wait(box: Box) -> None:
    """`kubectl exec POD -- /run/dijob/bin/launch env` shows the program's variables."""
    box.shows("3", IPS)
    process = box.start([box.launch, *python(LISTEN)], **RANK)
    assert line(process) == "ready"
    left = (box.path / "last-run/run.json").read_text()
    assert run(box, [box.launch, "echo", "beside"])[:2] == (0, "beside\n")
    assert (box.path / "last-run/run.json").read_text() == left
    process.terminate()
    assert end(process)[0] == 7


def test_a_process_that_is_left_behind_does_not_hold_the_container(box: Box) -> None:
    """The process holds the pipe open. The program's own output is complete nevertheless."""
    box.shows("3", IPS)
    leaves = "import subprocess; subprocess.Popen(['sleep', '3600']); print('x' * 60_000)"
    process = box.start([*PID_NAMESPACE, box.launch, *python(leaves)], **RANK)
    code, log = end(process)
    assert (code, [len(one) for one in log]) == (0, [60_000])


def test_a_closed_log_ends_the_program_and_not_the_launcher(box: Box) -> None:
    """As without a launcher, a write to the log fails or kills the program."""
    box.shows("3", IPS)
    endless = f"{box.launch} sh -c 'yes' | head -1; echo ${{PIPESTATUS[0]}}"
    code, out, _ = run(box, ["bash", "-c", endless])
    assert (code, out.splitlines()) == (0, ["y", "141"])
