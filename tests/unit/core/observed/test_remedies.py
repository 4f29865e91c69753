"""Remedies for errors that the cluster attributes to the operator's part of the pod."""

import pytest
from dijob import names
from dijob.core.observed.endings import how_it_ended
from dijob.core.observed.remedies import with_remedy
from samples.builders import pod_body, read
from samples.statuses import main_status

OFF = '(set launcher: "Off", because the launcher runs as process 1)'
PROCESS_1 = [
    "s6-overlay-suexec: fatal: can only run as pid 1",
    "can only run as pid 1",
    "runit: fatal: must be run as process no 1.",
    "init: must be run as PID 1",
    "this program is not process 1",
    "System has not been booted with systemd as init system (PID 1). Can't operate.",
]
OTHERS = [
    "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 1",
    "worker with pid 12 is not responding",
    "killed as pid 17",
    "ls: Argument list too long",
    "OSError: [Errno 22] Invalid argument",
    "",
]


@pytest.mark.parametrize("line", PROCESS_1)
def test_c9_a_program_that_must_be_process_1_has_a_remedy(line: str) -> None:
    """C9: s6-overlay, systemd and others exit unless they are the container's first process."""
    assert how_it_ended(100, None, "Error", line) == f"exited 100 {OFF}: {line}"


@pytest.mark.parametrize("line", OTHERS)
def test_c9_other_ends_have_no_remedy(line: str) -> None:
    """C9, C42, C48: only errors due to the operator's part of the pod have one."""
    assert with_remedy(line) == line


@pytest.mark.parametrize(
    ("container", "said", "remedy"),
    [
        (names.LAUNCHER_CONTAINER, "exec /install: argument list too long", "enableServiceLinks"),
        (names.GATE_CONTAINER, "exec /run/dijob/bin/gate: argument list too long", "enableService"),
        (names.MAIN_CONTAINER, "exec /run/dijob/bin/launch: invalid argument", "a NUL character"),
    ],
)
@pytest.mark.parametrize("waits", ["CrashLoopBackOff", "RunContainerError"])
def test_c42_c48_a_container_that_cannot_start_names_the_field_of_the_template(
    container: str, said: str, remedy: str, waits: str
) -> None:
    """C42, C48: the message named the operator's container, which crashed repeatedly."""
    end = {"exitCode": 1, "reason": "Error", "message": said}
    waiting = {"waiting": {"reason": waits, "message": said}}
    shown = main_status(name=container, state=waiting, lastState={"terminated": end})
    init = [shown] if container != names.MAIN_CONTAINER else []
    main = [shown] if not init else []
    found = read(pod_body(initContainerStatuses=init, containerStatuses=main)).complaint
    assert said in found
    assert found.count(remedy) == 1
