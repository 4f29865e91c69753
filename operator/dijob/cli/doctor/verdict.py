"""What a check says."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check came out."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One line of a check: what was found, and what to do about it. Of an unknown one `text` says
    why.
    """

    status: Status
    text: str
    remedy: str = ""


def ok(text: str) -> Finding:
    """As it should be."""
    return Finding(Status.OK, text)


def problem(text: str, remedy: str) -> Finding:
    """Something to be mended."""
    return Finding(Status.PROBLEM, text, remedy)


def unknown(why: str, remedy: str = "") -> Finding:
    """It cannot be told."""
    return Finding(Status.UNKNOWN, why, remedy)
