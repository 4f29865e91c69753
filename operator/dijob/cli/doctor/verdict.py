"""The result type of the checks."""

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """The result of a check.

    UNKNOWN is not a failure, and does not change the exit code: a missing permission or program
    must not look like a problem with the job.
    """

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One line of a check: what was found and what to do about it.

    If the status is UNKNOWN, the text says why it is unknown.
    """

    status: CheckStatus
    text: str
    remedy: str = ""


def ok(text: str) -> Finding:
    return Finding(CheckStatus.OK, text)


def problem(text: str, remedy: str) -> Finding:
    return Finding(CheckStatus.PROBLEM, text, remedy)


def unknown(why: str, remedy: str = "") -> Finding:
    return Finding(CheckStatus.UNKNOWN, why, remedy)
