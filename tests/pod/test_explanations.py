"""The launcher's messages about commands that cannot start or that fail for a reason that the user
can correct.
"""

import pytest
from dijob.core.observed.endings import find_headline
from pod.boxes import Box

LINE_ENDINGS = "the command or args contain carriage returns (Windows line endings)"
SCRIPT = "cd /tmp\r\nls --no-such-option\r\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["sh", "-c", SCRIPT], True),
        (["python3", "-c", "pass", "a\r"], False),
    ],
    ids=["script", "succeeds"],
)
def test_c48_windows_line_endings_are_named_if_the_command_fails(
    box: Box, command: list[str], says: bool
) -> None:
    """C48: the shell's message (`$'/tmp\\r': No such file`) does not name the cause. The last line
    of the log does, and the termination message, which the job's status quotes.
    """
    box.shows("1", "127.0.0.1")
    rc, _, err = box.run([box.launch, *command], DI_RANK="0", DIJOB_RESTART_POLICY="OnFailure")
    assert bool(rc) or not says
    last = (err.splitlines() or [""])[-1]
    assert (LINE_ENDINGS in last) is says
    message = box.path / "said-last"
    assert (message.exists() and LINE_ENDINGS in message.read_text()) is says


def test_c48_the_programs_own_error_stays_in_the_termination_message(box: Box) -> None:
    """Python accepts carriage returns, so here they are not the cause. The job's status prefers the
    exception to the launcher's line.
    """
    command = ["python3", "-c", "x = 1\r\nraise ValueError('mine')\r\n"]
    box.shows("1", "127.0.0.1")
    rc, _, _ = box.run([box.launch, *command], DI_RANK="0", DIJOB_RESTART_POLICY="OnFailure")
    message = (box.path / "said-last").read_text()
    assert (rc, find_headline(message)) == (1, "ValueError: mine")


def test_c42_too_large_an_environment_names_the_variables_of_services(box: Box) -> None:
    """C42: the kubelet adds seven variables for each Service of the namespace. Linux limits the
    size of all variables and arguments to a quarter of the stack limit. Here launch itself still
    fits, but its program, which also gets a peer list of 1,500 ranks, does not.
    """
    box.shows("1", ",".join(["fd00:1111:2222:3333:4444:5555:6666:7777"] * 1500))
    services = {f"S{i}_SERVICE_HOST": "x" * 1000 for i in range(2000)}
    command = ["sh", "-c", 'ulimit -s 8192; exec "$0" "$@"', box.launch, "true"]
    rc, _, err = box.run(command, DI_RANK="0", **services)
    assert rc == 126, err[-300:]
    assert "too large for Linux" in err
    assert "2000 Services of the namespace: set enableServiceLinks: false in the template" in err
