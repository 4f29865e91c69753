"""Groups the ranks' processes by their position in the program. No I/O.

In a job that hangs, many processes at one position usually wait for a few processes at another
position. The groups show that at a glance, while the stacks of hundreds of threads do not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dijob.core.members import format_ranks

from dijob_extras.stacks.read import Frame, Look, PythonProcess, Thread

# The kernel function in which a thread sleeps shows what it is waiting for. The first entry whose
# key is part of the function's name applies. Each entry has a text for several processes, and a
# text for one process.
_WAITS: Final = (
    ("nanosleep", "sleep", "sleeps"),
    ("accept", "wait for a connection", "waits for a connection"),
    ("wait_woken", "wait for a socket", "waits for a socket"),
    ("sk_wait", "wait for a socket", "waits for a socket"),
    ("more_packets", "wait for a socket", "waits for a socket"),
    ("unix_stream", "wait for a socket", "waits for a socket"),
    ("futex", "wait for another thread", "waits for another thread"),
    ("pipe", "wait for a pipe", "waits for a pipe"),
    ("poll", "wait for input", "waits for input"),
    ("select", "wait for input", "waits for input"),
    ("do_wait", "wait for a process", "waits for a process"),
)
_IDLE: Final = ("wait", "waits")
_BUSY: Final = ("run", "runs")
# The kernel's letters for two states that may explain a hang, but do not prove one.
_ENDED: Final = "Z"
_ASLEEP: Final = "D"
# Why a process cannot run, and what lets it run again.
_STOPPED: Final = (
    "stopped (state T)",
    "find out what sent SIGSTOP, then send SIGCONT: kubectl -n NAMESPACE exec POD -c CONTAINER --"
    " sh -c 'kill -CONT PIDS'",
)
_TRACED: Final = ("held by a debugger (state t)", "detach or stop the debugger")
_FROZEN: Final = (
    "frozen by the cgroup freezer",
    "find out what froze the container on its node (`ctr task pause`, `docker pause`, a"
    " checkpoint), and resume it",
)
_HALTS: Final = {"T": _STOPPED, "t": _TRACED}
_NOWHERE: Final = Frame("no Python frame", "<none>", "", 0)


@dataclass(frozen=True)
class StackMember:
    """A process with its rank."""

    rank: int
    process: PythonProcess


@dataclass(frozen=True)
class StackGroup:
    """Processes at the same position.

    `inner` is the innermost frame, and `own` is the innermost frame of the program's own code.
    """

    inner: Frame
    own: Frame | None
    members: tuple[StackMember, ...]
    alone: frozenset[int] = frozenset()
    """The ranks whose processes are all in this group."""

    @property
    def who(self) -> str:
        """The ranks in this group. If only some of a rank's processes are in this group, each of
        these processes is named.
        """
        ranks = sorted(self.alone)
        others = [one for one in self.members if one.rank not in self.alone]
        parts = [format_ranks(ranks)] if ranks else []
        parts += [f"rank {one.rank} (process {one.process.pid})" for one in others]
        return ", ".join(parts)

    @property
    def many(self) -> bool:
        """Whether `who` names more than one rank or process."""
        return len(self.alone) + sum(one.rank not in self.alone for one in self.members) > 1

    @property
    def where(self) -> str:
        """What the processes are doing, and in which function."""
        if self.inner is _NOWHERE:
            return "starting or exiting: no Python code is running"
        called = f", called by {self.own}" if self.own and self.own != self.inner else ""
        return f"{self._how} in {self.inner}{called}"

    @property
    def _how(self) -> str:
        threads = (one.process.thread for one in self.members)
        hows = Counter(_describe_activity(thread) for thread in threads if thread)
        # Threads at the same position may be in different states. The most frequent one is shown.
        ((plural, singular), _), *_ = hows.most_common()
        return plural if self.many else singular


def _describe_activity(thread: Thread) -> tuple[str, str]:
    for word, plural, singular in _WAITS:
        if word in thread.waits:
            return plural, singular
    return _BUSY if thread.active else _IDLE


def group_processes(looks: Mapping[int, Look]) -> list[StackGroup]:
    """Return the groups, largest first, without processes that only wait for their own workers."""
    found: dict[object, list[StackMember]] = {}
    for rank, look in sorted(looks.items()):
        for process in _select_processes(look.processes):
            found.setdefault(_group_key(process), []).append(StackMember(rank, process))
    ranks = Counter(one.rank for members in found.values() for one in members)
    rows = [_build_group(members, ranks) for members in found.values()]
    return sorted(rows, key=lambda one: (-len(one.members), one.members[0].rank))


def _select_processes(processes: Sequence[PythonProcess]) -> list[PythonProcess]:
    # A parent process whose stack contains no code of the program is a pool or a launcher. Such a
    # process would hide where the job hangs.
    parents = {one.parent for one in processes if not one.tracks}
    return [
        one
        for one in processes
        if not (one.problem or one.tracks or one.state == _ENDED or explain_halt(one))
        and not (one.pid in parents and not (one.thread and one.thread.own))
    ]


def _find_position(process: PythonProcess) -> tuple[Frame, Frame | None]:
    thread = process.thread
    if thread is None or not thread.frames:
        return _NOWHERE, None
    return thread.frames[0], thread.own


def _group_key(process: PythonProcess) -> object:
    """Return the key of a group: the line of the program's own code, and the innermost function.

    The line of the innermost function is left out, because a library that waits in a loop is at a
    different line each time.
    """
    inner, own = _find_position(process)
    line = (own.name, own.file, own.line) if own else ()
    return (*line, inner.name, inner.file)


def _build_group(members: Sequence[StackMember], ranks: Mapping[int, int]) -> StackGroup:
    inner, own = _find_position(members[0].process)
    here = Counter(one.rank for one in members)
    alone = frozenset(rank for rank, count in here.items() if count == ranks[rank])
    return StackGroup(inner, own, tuple(members), alone)


def summarize_groups(found: Sequence[StackGroup]) -> str:
    """Return a sentence about which ranks may be waiting for which other ranks."""
    first, *others = found
    if not others:
        return f"{first.who}: all processes are at the same position"
    # The summary says "may", because a working job also has groups of one process. A position
    # alone proves nothing.
    if len(first.members) > sum(len(one.members) for one in others):
        rest = ", ".join(one.who for one in others)
        return f"most processes are at the same position, and may be waiting for {rest}"
    return (
        f"the processes are at {len(found)} different positions, and no position is shared by more"
        " than half of the processes"
    )


def explain_halt(process: PythonProcess) -> tuple[str, str] | None:
    """Return why a process cannot run, and the remedy; None if it can run."""
    return _FROZEN if process.frozen else _HALTS.get(process.state)


def describe_halted(looks: Mapping[int, Look]) -> Iterable[tuple[int, str, str]]:
    """Yield a rank, a sentence about its processes that cannot run, and a remedy.

    If several reasons keep a rank's processes from running, the rank is yielded once per reason.
    """
    for rank, look in sorted(looks.items()):
        found: dict[tuple[str, str], list[PythonProcess]] = {}
        for one in look.processes:
            if halts := explain_halt(one):
                found.setdefault(halts, []).append(one)
        for (why, remedy), ones in found.items():
            pids = " ".join(str(one.pid) for one in ones)
            text = f"rank {rank}: {_format_processes(ones)} {why}{_format_positions(ones)}"
            yield rank, text, remedy.replace("PIDS", pids)


def describe_suspicious(looks: Mapping[int, Look]) -> Iterable[str]:
    """Return a sentence for processes in a state that may explain a hang."""
    for rank, look in sorted(looks.items()):
        if ended := [one for one in look.processes if one.state == _ENDED]:
            yield (
                f"rank {rank}: {_format_processes(ended)} in state Z (zombie): exited, but not"
                " yet reaped by the parent process"
            )
        if asleep := [one for one in look.processes if one.state == _ASLEEP and not one.frozen]:
            yield (
                f"rank {rank}: {_format_processes(asleep)} in state D (uninterruptible sleep),"
                " usually because a disk or a network file system does not respond"
            )


def _format_processes(ones: Sequence[PythonProcess]) -> str:
    *first, last = [str(one.pid) for one in ones]
    return f"processes {', '.join(first)} and {last} are" if first else f"process {last} is"


def _format_positions(ones: Sequence[PythonProcess]) -> str:
    """Return the functions that the processes are executing, if py-spy could read them."""
    frames = (own or inner for inner, own in map(_find_position, ones))
    known = dict.fromkeys(str(one) for one in frames if one is not _NOWHERE)
    return f" in {', '.join(known)}" if known else ""


def find_dump_problems(looks: Mapping[int, Look]) -> Iterable[tuple[str, list[int]]]:
    """Return each problem that prevented a stack dump, with the ranks where it occurred."""
    causes: dict[str, list[int]] = {}
    for rank, look in sorted(looks.items()):
        texts = [
            look.problem,
            # Halted processes are left out: `describe_halted` reports them, and the halt explains
            # why they cannot be read.
            *(
                f"process {p.pid}: {p.problem}"
                for p in look.processes
                if p.problem and not explain_halt(p)
            ),
        ]
        for why in filter(None, texts):
            causes.setdefault(why, []).append(rank)
    return causes.items()
