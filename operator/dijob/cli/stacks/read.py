"""What the image dijob/stacks says of a container: JSON, a line for each Python process. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Python's own files, those of packages, what the launcher's image adds, and a program's start.
_OF_OTHERS: Final = re.compile(
    r"<.*|.*/(site|dist)-packages/.*|.*/lib(64)?/python[\d.]+/.*|.*/dijob_runtime/.*"
    r"|.*/sitecustomize\.py|.*/python\d+\.zip/.*|.*/bin/[^/.]+"
)
_MAIN: Final = "MainThread"
# multiprocessing's own process, which waits for the end of its program.
_TRACKER: Final = "multiprocessing/resource_tracker.py"


@dataclass(frozen=True)
class Frame:
    """A call that has not returned yet: the function, and where it is in its file."""

    name: str
    path: str
    file: str
    """The path as it is imported."""
    line: int

    @property
    def own(self) -> bool:
        """Whether it is the program's own code, and not Python's or a package's."""
        return _OF_OTHERS.fullmatch(self.path) is None

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.name} ({self.file}:{self.line})"


@dataclass(frozen=True)
class Thread:
    """A thread: its frames, the innermost first, and what the kernel says it waits for."""

    name: str
    frames: tuple[Frame, ...]
    active: bool
    waits: str = ""

    @property
    def own(self) -> Frame | None:
        """The innermost frame of the program's own code."""
        return next((frame for frame in self.frames if frame.own), None)


@dataclass(frozen=True)
class Process:
    """A Python process. `problem` says why its threads are not known."""

    pid: int
    parent: int
    command: tuple[str, ...] = ()
    threads: tuple[Thread, ...] = ()
    problem: str = ""

    @property
    def thread(self) -> Thread | None:
        """The thread that says where it stands: the main one, another one where only that is in the
        program's own code."""
        first = [one for one in self.threads if one.name == _MAIN] or list(self.threads[:1])
        own = [one for one in (*first, *self.threads) if one.own]
        return next(iter([*own, *first]), None)

    @property
    def tracks(self) -> bool:
        """Whether it is of no interest to anybody: multiprocessing's own."""
        frames = self.thread.frames if self.thread else ()
        return any(frame.file == _TRACKER for frame in frames)


@dataclass(frozen=True)
class Look:
    """A rank's Python processes. `problem` says why they are not known."""

    processes: tuple[Process, ...] = ()
    problem: str = ""
    data: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """As it was said."""


def read(text: str) -> Look:
    """The output of a container; a Look with a problem where it is not whole."""
    try:
        *said, end = (json.loads(line) for line in text.splitlines())
        count = end["processes"]
        found = tuple(map(_process, said))
    except (ValueError, KeyError, TypeError, AttributeError):
        return Look(problem=f"what it said is not whole: {' '.join(text.split())[-200:]}")
    if not count:
        return Look(problem="no Python process was found in its container")
    return Look(found, data=said)


def _process(said: Mapping[str, Any]) -> Process:
    waits = said.get("waits") or {}
    threads = tuple(_thread(one, waits) for one in said.get("threads") or ())
    words = tuple(map(str, said["command"]))
    problem = str(said.get("problem") or "")
    return Process(said["pid"], said["parent"], words, threads=threads, problem=problem)


def _thread(said: Mapping[str, Any], waits: Mapping[str, str]) -> Thread:
    frames = tuple(
        Frame(one["name"], one["filename"], one["short_filename"] or one["filename"], one["line"])
        for one in said["frames"]
    )
    waiting = waits.get(str(said["os_thread_id"]), "")
    return Thread(str(said["thread_name"] or ""), frames, bool(said["active"]), waiting)
