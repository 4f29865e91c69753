"""The error that all commands raise: one sentence for the user and an exit code for scripts."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of all commands. docs/cli.md lists them with the text below each."""

    # As in grep and diff, 1 means a negative result and 2 an unusable request. click also uses 2
    # for a wrong option. The codes above 2 tell scripts what can be retried.
    OK = 0
    FAILED = 1
    """The job failed, a check found a problem, or a limit was exceeded."""
    USAGE = 2
    """The command line or an input file is invalid."""
    NOT_FOUND = 3
    """The cluster has no such job, rank or container."""
    REFUSED = 4
    """The API server rejected the request: invalid DIJob, missing permission, quota, conflict."""
    UNREACHABLE = 5
    """The API server does not respond, or the kubeconfig cannot be used."""
    TIMED_OUT = 6
    """A timeout expired."""
    INTERRUPTED = 130
    """Ctrl-C (128 + SIGINT, the shell convention)."""
    BUG = 70
    """Internal error, a bug in the program (EX_SOFTWARE in sysexits.h)."""


class CliError(Exception):
    """An error for the user: a sentence that says what happened and what to do, and an exit code.

    Anything else that a command raises is a bug (main.py).
    """

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code
