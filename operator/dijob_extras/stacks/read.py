"""Parses the output of the image dijob/stacks: a line of JSON for each Python process. No I/O.

The last line contains the number of processes, so that a truncated log can be detected.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Files that are not the program's own code: Python itself, packages, the launcher's files, and
# scripts such as /usr/local/bin/ditask.
_OF_OTHERS: Final = re.compile(
    r"<.*|.*/(site|dist)-packages/.*|.*/lib(64)?/python[\d.]+/.*|.*/dijob_runtime/.*"
    r"|.*/sitecustomize\.py|.*/python\d+\.zip/.*|.*/bin/[^/.]+"
)
_MAIN: Final = "MainThread"
# multiprocessing starts this process, which runs until the program exits.
_TRACKER: Final = "multiprocessing/resource_tracker.py"

# The kernel functions in which the cgroup freezer holds a thread (first cgroup v2, then v1).
_FROZEN: Final = ("freezer_trap", "refrigerator")


@dataclass(frozen=True)
class Frame:
    """A frame of a stack: a function, its file and its line."""

    name: str
    path: str
    file: str
    """The path as py-spy shortens it: without the folders above the outermost Python package. If
    the file is not in a package, only its name remains."""
    line: int

    @property
    def own(self) -> bool:
        """Whether this is the program's own code, not Python's or a package's."""
        return _OF_OTHERS.fullmatch(self.path) is None

    def __str__(self) -> str:
        """Return the function and its place in the source, for messages."""
        return f"{self.name} ({self.file}:{self.line})"


@dataclass(frozen=True)
class Thread:
    """A thread with its frames, innermost first, and the kernel function in which it waits."""

    name: str
    frames: tuple[Frame, ...]
    active: bool
    waits: str = ""

    @property
    def own(self) -> Frame | None:
        """The innermost frame of the program's own code, or None."""
        return next((frame for frame in self.frames if frame.own), None)


@dataclass(frozen=True)
class PythonProcess:
    """A Python process. `problem` explains why the threads are unknown. `state` is the kernel's
    letter for the state of the process. `frozen` is true if the cgroup freezer holds the process.
    """

    pid: int
    parent: int
    command: tuple[str, ...] = ()
    threads: tuple[Thread, ...] = ()
    problem: str = ""
    state: str = ""
    frozen: bool = False

    @property
    def thread(self) -> Thread | None:
        """The thread whose stack is reported as that of the process.

        The main thread is reported if the program's own code is on its stack. Otherwise, another
        thread with this code on its stack is reported. If there is none, the main thread is
        reported.
        """
        first = [one for one in self.threads if one.name == _MAIN] or list(self.threads[:1])
        own = [one for one in (*first, *self.threads) if one.own]
        return next(iter([*own, *first]), None)

    @property
    def tracks(self) -> bool:
        """Whether this is multiprocessing's resource tracker, which is never of interest."""
        frames = self.thread.frames if self.thread else ()
        return any(frame.file == _TRACKER for frame in frames)


@dataclass(frozen=True)
class Look:
    """The Python processes of a rank. `problem` explains why these processes are unknown."""

    processes: tuple[PythonProcess, ...] = ()
    problem: str = ""
    data: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """The parsed output, for `-o json`."""


def parse_dump(text: str) -> Look:
    """Parse the output of a container. If the output is incomplete, `problem` says so."""
    try:
        *rows, end = (json.loads(line) for line in text.splitlines())
        count = end["processes"]
        found = tuple(map(_parse_process, rows))
    except (ValueError, KeyError, TypeError, AttributeError):
        # The problem quotes the end of the output, because an error message would be there.
        return Look(problem=f"its stack dump is incomplete: {' '.join(text.split())[-200:]}")
    if not count:
        return Look(problem="no Python process was found in its container")
    return Look(found, data=rows)


def _parse_process(said: Mapping[str, Any]) -> PythonProcess:
    waits = said.get("waits") or {}
    threads = tuple(_parse_thread(one, waits) for one in said.get("threads") or ())
    words = tuple(map(str, said["command"]))
    problem = str(said.get("problem") or "")
    return PythonProcess(
        said["pid"],
        said["parent"],
        words,
        threads=threads,
        problem=problem,
        state=str(said.get("state") or ""),
        frozen=any(part in str(one) for one in waits.values() for part in _FROZEN),
    )


def _parse_thread(said: Mapping[str, Any], waits: Mapping[str, str]) -> Thread:
    frames = tuple(
        Frame(one["name"], one["filename"], one["short_filename"] or one["filename"], one["line"])
        for one in said["frames"]
    )
    waiting = waits.get(str(said["os_thread_id"]), "")
    return Thread(str(said["thread_name"] or ""), frames, bool(said["active"]), waiting)
