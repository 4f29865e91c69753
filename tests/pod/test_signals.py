"""Signals: the launcher forwards them to its program, and exits with the program's code."""

import os
import signal
import time

import pytest
from cluster.waiting import until_true
from pod.boxes import ENTER, PID_NAMESPACE, Box, shown
from pod.processes import LISTEN, WHERE, end, first_process, line, python, writer


@WHERE
def test_term_reaches_the_program_which_may_save_its_state(box: Box, namespace: list[str]) -> None:
    process = box.start([*namespace, box.launch, *python(LISTEN)])
    assert line(process) == "ready"
    os.kill(first_process(process, namespace), signal.SIGTERM)
    assert end(process) == (7, ["SIGTERM", "saved"])


@WHERE
def test_also_below_a_shell_which_dies_of_it_at_once(
    box: Box, namespace: list[str], shell: list[str]
) -> None:
    wrapper = [*shell, "-c", '"$0" "$@"; true']
    process = box.start([*namespace, box.launch, *wrapper, *python(LISTEN)])
    assert line(process) == "ready"
    os.kill(first_process(process, namespace), signal.SIGTERM)
    assert end(process) == (128 + signal.SIGTERM, ["SIGTERM", "saved"])


@WHERE
def test_usr1_and_usr2_go_only_to_the_command(box: Box, namespace: list[str]) -> None:
    # `sleep` has no handler. A USR1 to all processes would kill it, and the shell would report
    # that.
    both = f"sleep 3600 & exec python3 -c '{LISTEN}'"
    process = box.start([*namespace, box.launch, "sh", "-c", both])
    assert line(process) == "ready"
    launch = first_process(process, namespace)
    for name in ("USR1", "USR2", "USR1"):
        os.kill(launch, getattr(signal, f"SIG{name}"))
        assert line(process) == f"SIG{name}"
    until_true(
        "sleep is there",
        lambda: any(command.startswith("sleep 3600") for command in box.alive().values()),
    )
    for name in ("HUP", "TERM"):
        os.kill(launch, getattr(signal, f"SIG{name}"))
        assert line(process) == f"SIG{name}"
    assert end(process) == (7, ["saved"])


@WHERE
def test_int_and_quit_are_not_ignored(box: Box, namespace: list[str]) -> None:
    show = (
        "import signal; print([signal.getsignal(s) is signal.SIG_IGN for s in (signal.SIGINT,"
        " signal.SIGQUIT)])"
    )
    _, out, _ = box.run([*namespace, box.launch, *python(show)])
    assert out == "[False, False]\n"


@WHERE
@pytest.mark.parametrize("code", [0, 127, 143])
def test_the_code_stays_exact_when_signals_interrupt_the_wait(
    box: Box, namespace: list[str], code: int
) -> None:
    stubborn = f"""
import os, signal, sys
signals = {{signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
os.write(1, b"ready\\n")
for count in range(1, 5):
    signal.sigwait(signals)
    os.write(1, b"%d\\n" % count)
os.read(0, 1)
sys.exit({code})
"""
    process = box.start([*namespace, box.launch, *python(stubborn)])
    assert line(process) == "ready"
    launch = first_process(process, namespace)
    for count, name in enumerate(("HUP", "INT", "QUIT", "TERM"), 1):
        os.kill(launch, getattr(signal, f"SIG{name}"))
        assert line(process) == str(count)
    assert end(process) == (code, [])


@WHERE
def test_h44_a_signal_that_comes_before_the_program_is_not_lost(
    box: Box, namespace: list[str]
) -> None:
    """H44, R18: the launcher used to replace itself with another process after it had read its peer
    list. Signals before that were lost, and so were signals to PID 1 until the new process had a
    handler.
    """
    pipe = box.pipe()
    process = box.start([*namespace, box.launch, *python(LISTEN)], DI_RANK="0")
    launch = first_process(process, namespace)
    list_ = until_true("launch reads its list", lambda: writer(pipe) or 0)
    pipe.unlink()
    os.kill(launch, signal.SIGTERM)
    os.write(list_, shown("1", "10.0.0.1").encode())
    os.close(list_)
    assert end(process)[0] in (7, 128 + signal.SIGTERM)


def test_others_in_a_shared_namespace_are_left_alone(box: Box) -> None:
    neighbour = box.start(["sleep", "60"])
    process = box.start([box.launch, *python(LISTEN)])
    assert line(process) == "ready"
    process.terminate()
    assert end(process) == (7, ["SIGTERM", "saved"])
    assert neighbour.poll() is None
    neighbour.kill()


def test_all_processes_of_the_container_get_sigterm(box: Box) -> None:
    process = box.start([*PID_NAMESPACE, box.launch, *python(LISTEN)])
    assert line(process) == "ready"
    launch = first_process(process, PID_NAMESPACE)
    # Like a process of `kubectl exec`: in the container, but not a descendant of launch.
    enter = [*ENTER, f"--target={launch}", "--pid", "--mount", "--wdns=/"]
    visitor = box.start([*enter, *python(LISTEN)])
    assert line(visitor) == "ready"
    os.kill(launch, signal.SIGTERM)
    assert end(process) == (7, ["SIGTERM", "saved"])
    assert line(visitor) == "SIGTERM"
    end(visitor)


# Fails as soon as it receives SIGTERM.
ENDS = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.write(1, b"ready\\n")
signal.sigwait({signal.SIGTERM})
sys.exit(1)
"""


@WHERE
def test_after_sigterm_it_ends_in_a_later_second_if_the_pod_then_ends(
    box: Box, namespace: list[str]
) -> None:
    """H18: a status has whole seconds, by which the operator distinguishes a dead sandbox from a
    program that ended by itself.
    """
    command = [*namespace, box.launch, *python(ENDS)]
    process = box.start(command, DIJOB_RESTART_POLICY="Never")
    assert line(process) == "ready"
    launch = first_process(process, namespace)
    told = int(time.time())
    os.kill(launch, signal.SIGTERM)
    assert end(process) == (1, [])
    # The launcher's run/launch_test.go shows that it is the next second.
    assert told < int(time.time())


@WHERE
def test_a_program_that_ends_by_itself_is_not_waited_for(box: Box, namespace: list[str]) -> None:
    """H18: the delay applies only after SIGTERM. With the delay, each run would end at the begin of
    a second, so each but the first would take a second.
    """
    took = []
    for _ in range(4):
        began = time.monotonic()
        assert box.run([*namespace, box.launch, "true"], DIJOB_RESTART_POLICY="Never")[0] == 0
        took.append(time.monotonic() - began)
    assert min(took[1:]) < 0.9, took
