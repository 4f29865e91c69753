"""What a command ends with when it cannot do what it is asked: one sentence and an exit code."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of all commands, for scripts."""

    OK = 0
    FAILED = 1
    """The answer is no: the job has failed, a check has found something, a limit was exceeded."""
    USAGE = 2
    """The command line or a file is wrong."""
    NOT_FOUND = 3
    """The cluster has no such job, rank or container."""
    REFUSED = 4
    """The apiserver refuses it: a rule of the DIJob, a missing right, a quota, a conflict."""
    UNREACHABLE = 5
    """The cluster does not answer, or the kubeconfig does not lead to one."""
    TIMED_OUT = 6
    """What was waited for has not come in time."""
    INTERRUPTED = 130
    """Ctrl-C, as a shell says it."""
    BUG = 70
    """An error of the program's own (EX_SOFTWARE of sysexits.h)."""


class CliError(Exception):
    """A sentence for the user, which says what to do, and the exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code
