"""Splits the output of a failed program into parts, with the most useful part first: the exception,
its traceback, the other output, and library warnings. No I/O.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from dijob.api.printed import plain_text
from dijob.api.status import FirstFailure
from dijob.client import Job, RankPod
from dijob.core.observed.endings import (
    FRAME,
    NOTICE,
    TRACEBACK,
    WARNING,
    describe_failed_part,
    how_it_ended,
)
from dijob.names import Phase

# Python prints one of these between the tracebacks of chained exceptions.
_CHAINED: Final = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


@dataclass(frozen=True)
class Output:
    """The parts of a program's output. The line breaks are kept."""

    exception: str = ""
    traceback: str = ""
    other: str = ""
    warnings: str = ""


def split_output(text: str) -> Output:
    """Return the parts of an output. Without a traceback, everything except warnings is `other`."""
    useful, noise = _separate_warnings([line.rstrip() for line in plain_text(text).split("\n")])
    start = _traceback_start(useful)
    if start is None:
        return Output(other=_join(useful), warnings=_join(noise))
    end = _exception_start(useful, start)
    return Output(
        exception=_join(useful[end:]),
        traceback=_join(useful[start:end]),
        other=_join(useful[:start]),
        warnings=_join(noise),
    )


def _separate_warnings(lines: list[str]) -> tuple[list[str], list[str]]:
    useful, noise = list[str](), list[str]()
    before = ""
    for line in lines:
        # Below a warning, Python prints the line of code that the warning refers to.
        quoted = line[:1].isspace() and WARNING.search(before)
        (noise if quoted or is_noise(line) else useful).append(line)
        before = line
    return useful, noise


def is_noise(line: str) -> bool:
    """Return whether a line is a library's warning."""
    return bool(WARNING.search(line) or NOTICE.search(line))


def _traceback_start(lines: list[str]) -> int | None:
    """Return where the last traceback starts; None if there is no traceback.

    If the last traceback belongs to a chain, return where the first one of the chain starts.
    """
    headers = [at for at, line in enumerate(lines) if line == TRACEBACK]
    if not headers:
        return next((at for at, line in enumerate(lines) if FRAME.match(line)), None)
    start = headers.pop()
    while headers and any(line in _CHAINED for line in lines[headers[-1] : start]):
        start = headers.pop()
    # The header of the first traceback of a chain may have been cut off.
    cut = any(line in _CHAINED for line in lines[:start]) and not headers
    return 0 if cut else start


def _exception_start(lines: list[str], start: int) -> int:
    """Return where the last exception of a traceback starts."""
    frames = [at for at in range(start, len(lines)) if FRAME.match(lines[at])]
    first = frames[-1] + 1 if frames else start + 1
    return next((at for at in range(first, len(lines)) if lines[at][:1].strip()), len(lines))


def _join(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n")


def summarize_failure(job: Job) -> str:
    """Return, as a sentence, the first failure of a job that has failed; "" if there is none."""
    first = job.status.first_failure
    if first is None or job.phase != Phase.FAILED:
        return ""
    end = how_it_ended(first.exit_code, first.signal, first.reason, first.message, first.cause)
    text = f"{describe_failed_part(first.rank, first.container)} {end}"
    return text[:1].upper() + text[1:]


def describe_failure(job: Job, pods: Iterable[RankPod]) -> dict[str, Any] | None:
    """Return the first failure of a job that has failed, for the page; None if there is none."""
    first, title = job.status.first_failure, summarize_failure(job)
    if first is None or not title:
        return None
    return {
        "title": title,
        "rank": first.rank,
        "where": _describe_place(first),
        "time": first.time,
        **asdict(split_output(_longest_output(first, pods))),
    }


def _longest_output(first: FirstFailure, pods: Iterable[RankPod]) -> str:
    """Return the end of the output. The pod keeps 4096 characters of the output, and the status
    keeps fewer.
    """
    known = plain_text(first.message).strip()
    for pod in pods:
        text = plain_text(str(pod.end.get("message") or "")).strip()
        # The pod may since have ended for another reason.
        if pod.name == first.pod and known and text.endswith(known):
            return text
    return known


def _describe_place(first: FirstFailure) -> str:
    reason = f"reason {first.reason}" if first.reason else ""
    code = f"exit code {first.exit_code}" if first.exit_code is not None else ""
    node = f"node {first.node}" if first.node else ""
    return ", ".join(part for part in (f"pod {first.pod}", node, code, reason) if part)
