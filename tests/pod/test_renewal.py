"""The launcher ends its program when a re-rendezvous requires it, and reports that. The kubelet
restarts it with the new peer list.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from cluster.waiting import until_true
from pod.boxes import PID_NAMESPACE, Box, shown
from pod.processes import LISTEN, WHERE, answer, children, end, first_process, line, python

OLD = {"DI_RANK": "1", "DI_LIST_NUMBER": "3", "DI_NODES": "10.0.0.1,10.0.0.2", "DIJOB_NAP": "0.05"}
NEW = "10.0.0.7,10.0.0.2"
# Ignores signals, and reports when it is ready.
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready',"
    " flush=True); time.sleep(3600)"
)


def started(box: Box, command: list[str], **env: str) -> subprocess.Popen[str]:
    """Start the launcher with revision 3 of the peer list, and wait until its program is ready."""
    box.shows("3", OLD["DI_NODES"])
    process = box.start(command, **OLD | env)
    assert line(process) == "ready"
    return process


def states(pid: int) -> str:
    """Return the states of a process's children."""
    return "".join(Path(f"/proc/{child}/status").read_text() for child in children(pid))


def is_held(pid: int) -> bool:
    """Return whether all threads of a process are stopped."""
    files = Path(f"/proc/{pid}/task").glob("*/status")
    return all("T (stopped)" in file.read_text() for file in files)


@WHERE
def test_the_program_may_end_well_and_the_exit_code_is_85(box: Box, namespace: list[str]) -> None:
    process = started(box, [*namespace, box.launch, *python(LISTEN)])
    box.shows("5", NEW, "5")
    assert line(process) == "SIGTERM"
    assert end(process) == (85, ["saved"])
    assert box.said_last() == "dijob: renewal, list 5\n"
    assert "revision 5, the program has 3" in box.err()


# Writes its own termination message when it is ended, like a program that reports the path of its
# checkpoint.
WRITES = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
with open(os.environ["SAID_LAST"], "w") as file:
    file.write("saved at step 7, and a good deal more than the mark is long\\n")
time.sleep(0.3)
sys.exit(3)
"""


@WHERE
def test_the_mark_replaces_the_termination_message_of_the_program(
    box: Box, namespace: list[str]
) -> None:
    said = box.path / "said-last"
    process = started(box, [*namespace, box.launch, *python(WRITES)], SAID_LAST=str(said))
    box.shows("5", NEW, "5")
    assert end(process)[0] == 85
    assert box.said_last() == "dijob: renewal, list 5\n"


@WHERE
def test_a_shell_that_forwards_no_signals(box: Box, namespace: list[str]) -> None:
    process = started(box, [*namespace, box.launch, "sh", "-c", f"python3 -c '{LISTEN}'; exit 3"])
    box.shows("4", NEW, "4")
    assert line(process) == "SIGTERM"
    assert end(process) == (85, ["saved"])


def test_a_program_that_does_not_end_is_killed(box: Box) -> None:
    process = started(box, [*PID_NAMESPACE, box.launch, *python(DEAF)], DIJOB_KILL_SECONDS="1")
    begin = time.monotonic()
    box.shows("4", NEW, "4")
    assert end(process)[0] == 85  # the program itself would take an hour
    assert time.monotonic() - begin > 0.9


def test_a_program_that_ends_by_itself_has_the_last_word(box: Box) -> None:
    """The launcher is stopped until its program has ended, and the new revision arrives during this
    time.
    """
    process = started(box, [box.launch, *python("print('ready', flush=True); input()")])
    os.kill(process.pid, signal.SIGSTOP)
    # A thread stops only when it is scheduled next. Until then it can still reap the program.
    until_true("launch is held", lambda: is_held(process.pid))
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()
    until_true("the program has ended", lambda: "Z (zombie)" in states(process.pid))
    box.shows("4", NEW, "4")
    os.kill(process.pid, signal.SIGCONT)
    assert end(process)[0] == 0, box.err()
    assert not box.said_last()


def test_a_start_with_variables_of_a_dead_list_takes_the_files_and_is_not_ended(box: Box) -> None:
    """The kubelet may start a container with an older version of the pod than the one in the
    volume.
    """
    box.shows("4", NEW, "4")
    due = box.pipe()
    program = "import os, sys; print(os.environ['DI_NODES'], flush=True); sys.stdin.read()"
    process = box.start([box.launch, *python(program)], **OLD)
    # The file is read once before the program starts, and then each second.
    answer(due, [shown("4", NEW, "4")] * 4)
    assert line(process) == NEW
    assert end(process)[0] == 0


# Ends only after the second TERM.
ENDS_LATER = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.write(1, b"ready\\n")
for _ in range(2):
    os.write(1, b"%s\\n" % signal.sigwait({signal.SIGTERM}).name.encode())
"""


def test_the_pods_end_in_the_middle_of_it(box: Box) -> None:
    process = started(box, [*PID_NAMESPACE, box.launch, *python(ENDS_LATER)])
    launch = first_process(process, PID_NAMESPACE)
    box.shows("4", NEW, "4")
    assert line(process) == "SIGTERM"
    os.kill(launch, signal.SIGTERM)
    assert end(process) == (85, ["SIGTERM"])


def test_without_a_place_for_the_message_it_ends_all_the_same(box: Box) -> None:
    process = started(box, [box.launch, *python(LISTEN)], DIJOB_TERMINATION_LOG="/nowhere/at/all")
    box.shows("4", NEW, "4")
    assert line(process) == "SIGTERM"
    assert end(process)[0] == 85
