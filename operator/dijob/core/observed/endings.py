"""Describes how a container ended: its exit code or signal, and the line of its last output that
most likely says why.

The last line alone is often useless: training programs end with tables, progress bars and library
warnings. So lines of these kinds are skipped, and the exception of a traceback is preferred.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from signal import Signals
from typing import Any

from dijob.api.printed import one_line, plain_text
from dijob.core.observed.remedies import find_remedy

Body = Mapping[str, Any]

# Below this header the frames are indented; the first line that is not indented is the exception.
TRACEBACK = "Traceback (most recent call last):"
# A frame of a traceback. A termination message keeps only the end of the output, so the header of a
# long traceback may be missing.
FRAME = re.compile(r'\s+File ".*", line \d+')
# torchrun's summary. Its traceback is that of torchrun, not of the worker that failed
# (torch/distributed/elastic/multiprocessing/errors).
TORCHRUN = re.compile(
    r"Root Cause \(first observed failure\):\n.*?\(local_rank: (\d+)\)\n\s+exitcode\s*: (-?\d+)",
    re.DOTALL,
)
# Signals that a program causes itself, so its last output explains them. Any other signal comes
# from outside, so the last line of the output does not explain it.
OWN_SIGNALS = frozenset({"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"})
# A line with at least one word, unlike a separator or the marks below the position of an error.
MEANINGFUL = re.compile(r"[^\W_]{2,}")
# A row of a table as DI-engine prints it: with a frame, or only the cells with numbers if the frame
# was cut off. It must not match a line of loguru, which has words between its bars, or an exception
# group, which has no bar at the end.
ROW = re.compile(r"[|│┃║]\s*$|^[^|]*(?:\|\s*[-+.\deE%naif]+\s*){2,}$")
# A warning from a library, usually during an import. Below it, Python prints the line of code that
# the warning refers to. Notices from gym and transformers have no log level, so NOTICE lists how
# they begin.
WARNING = re.compile(r":\d+: \w*Warning: |^.{0,60}\bWARN(?:ING)?\b|^\s*warnings\.warn\(")
NOTICE = re.compile(
    r"^(?:Gym has been unmaintained|Please upgrade to Gymnasium|Users of this version of Gym"
    r"|See the (?:Gymnasium )?migration guide|None of PyTorch, TensorFlow)"
)
HEADLINE_LIMIT = 200
# Reason and exit code of a container whose end was not observed. The first pair comes from a
# containerd that starts and finds no shim, for example after a reboot (pkg/cri/server:
# unknownExitCode). A program that exits 255 has the reason Error instead. The second pair comes
# from a kubelet that no longer finds the container. Docker reports 255 and Error for a reboot and
# for a crash, so with Docker a reboot counts as a crash.
UNSEEN = (("Unknown", 255), ("ContainerStatusUnknown", 137))
# The reason used for a failure that is not recorded in the container's status. The exit code of
# such a failure is unknown.
UNRECORDED = "Unknown"


@dataclass(frozen=True)
class ContainerEnding:
    """The last termination of a container.

    `exit_code` is None if the kubelet has no record of the end. `signal` is 0 if no signal ended
    it. `began` and `at` are when it started and when it ended ("": unknown). `container` is its
    name, "" for the main one. `cause` is a detail that only the cluster knows: the memory limit, or
    the probe that failed. `runs_again`: it has been restarted since.
    """

    exit_code: int | None
    signal: int
    reason: str
    message: str
    at: str = ""
    began: str = ""
    container: str = ""
    cause: str = ""
    runs_again: bool = False

    @property
    def recorded(self) -> bool:
        """Whether the kubelet has a record of the end."""
        return self.exit_code is not None

    @property
    def words(self) -> str:
        """How the container ended, as the rest of a sentence (see how_it_ended)."""
        return how_it_ended(self.exit_code, self.signal, self.reason, self.message, self.cause)

    @property
    def program(self) -> str:
        """The container as the subject of a sentence."""
        return f"its container {self.container}" if self.container else "its program"


def read_ending(spec: Body, container: Body, ended: Body) -> ContainerEnding:
    """Read one termination of a container; `spec` is the spec of the container's pod."""
    code = int(ended.get("exitCode") or 0)
    signal = int(ended.get("signal") or 0) or (code - 128 if 128 < code < 160 else 0)
    message = plain_text(ended.get("message") or "").strip()
    return ContainerEnding(
        exit_code=code,
        signal=signal,
        reason=one_line(ended.get("reason") or ""),
        message=message,
        at=ended.get("finishedAt") or "",
        began=ended.get("startedAt") or "",
        container=str(container.get("name") or ""),
        cause=_memory_limit(spec, container) if ended.get("reason") == "OOMKilled" else "",
        runs_again="running" in (container.get("state") or {}),
    )


def unrecorded_ending(container: Body) -> ContainerEnding:
    """Return an ending for a restarted container whose status has no record of its last
    termination. The ending has the time of the restart, because the container cannot have ended
    after that.
    """
    running = (container.get("state") or {}).get("running") or {}
    return ContainerEnding(
        exit_code=None,
        signal=0,
        reason=UNRECORDED,
        message="",
        at=str(running.get("startedAt") or ""),
        container=str(container.get("name") or ""),
        runs_again=True,
    )


def _memory_limit(spec: Body, container: Body) -> str:
    """Return the memory limit of a container that ran out of memory. The container's status has the
    effective limit (since Kubernetes 1.33), and the spec has the requested limit.
    """
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    given: Body = next((c for c in every if c.get("name") == container.get("name")), {})
    for whose, what in (("container", container), ("container", given), ("pod", spec)):
        if limit := ((what.get("resources") or {}).get("limits") or {}).get("memory"):
            return f"the {whose}'s memory limit is {limit}"
    return "the container has no memory limit, and its node ran out of memory"


def describe_failed_part(rank: int, container: str) -> str:
    """Return what failed; `container` is "" for the main one."""
    return f"rank {rank}: container {container}" if container else f"rank {rank}"


def how_it_ended(
    exit_code: int | None, signal: int | None, reason: str, message: str, cause: str = ""
) -> str:
    """Describe how a process ended, as the rest of a sentence: "exited 1: ModuleNotFoundError: No
    module named 'mymod'".

    `reason` comes from the kubelet. `message` is the end of the output, or the kubelet's own
    message. `cause` is a detail that only the cluster knows: the memory limit, or the probe that
    failed.
    """
    if reason == "OOMKilled":
        return f"ran out of memory (OOMKilled{f': {cause}' if cause else ''})"
    if cause:
        return f"was killed by the kubelet: {cause}"
    if (reason, exit_code) in ((UNRECORDED, None), *UNSEEN):
        return f"failed, but its node has no record of how{f' ({reason})' if exit_code else ''}"
    if signal:
        name = _signal_name(signal)
        end, line = f"was killed by {name}", find_headline(message, healthy=name not in OWN_SIGNALS)
    else:
        end, line = _without_signal(exit_code, reason), find_headline(message)
    # The remedy comes before the quoted line, because a status message is cut at its end.
    known = f" ({what})" if (what := find_remedy(line)) else ""
    return f"{end}{known}: {line}" if line else end


def _without_signal(exit_code: int | None, reason: str) -> str:
    if exit_code is not None:
        return f"exited {exit_code}"
    return f"failed ({reason})" if reason else "failed"


def find_headline(text: str, *, healthy: bool = False) -> str:
    """Return the most informative line at the end of a program's output. This is the exception of
    the last traceback. Without a traceback, it is the last line with words, unless the program was
    `healthy` until its end. For torchrun's summary, return which worker failed first. Return "" if
    no line has words.
    """
    if worker := TORCHRUN.search(text):
        return (
            f"torchrun's local rank {worker[1]} exited {worker[2]}, and the error of that process"
            " is further up in the log"
        )
    lines = [line.rstrip() for line in text.splitlines()]
    found = _exception_line(lines) or ("" if healthy else next(_telling_lines(lines), ""))
    found = found.strip(" |")
    return found if len(found) <= HEADLINE_LIMIT else f"{found[: HEADLINE_LIMIT - 4]} ..."


def _exception_line(lines: list[str]) -> str:
    headers = [at for at, line in enumerate(lines) if line == TRACEBACK]
    starts = headers or [at for at, line in enumerate(lines) if FRAME.match(line)]
    after = lines[starts[-1] + 1 :] if starts else []
    return next((line for line in after if line[:1].strip()), "")


def _telling_lines(lines: list[str]) -> Iterator[str]:
    """Yield the lines that may say why a program failed, the last one first."""
    for at in range(len(lines) - 1, -1, -1):
        line, before = lines[at], lines[at - 1] if at else ""
        quoted = line[:1].isspace() and WARNING.search(before)
        noise = quoted or any(kind.search(line) for kind in (ROW, WARNING, NOTICE))
        if MEANINGFUL.search(line) and not noise:
            yield line


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
