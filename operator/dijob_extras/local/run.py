"""Runs the ranks until the job has finished, and leaves no process behind.

Deadlines, signals and the exits of programs all go through one queue. So they are handled one after
the other, as in a reconciliation of the operator.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from dijob.core.backoff import doubled_wait

from dijob_extras.local.group import ProcessGroup
from dijob_extras.local.ledger import Decision, LocalFailureAccount, LocalOutcome
from dijob_extras.local.plan import Start
from dijob_extras.local.waiting import (
    ENDING_SECONDS,
    FIRST_SECONDS,
    EndWait,
    format_running,
    running_ranks,
)

# Pauses before a restart. A kubelet waits 10 s, 20 s, ... up to 5 minutes, to protect the node.
# Here, such pauses would only keep the user at the terminal waiting.
PAUSES: Final = (1.0, 10.0)
INTERRUPTED: Final = "Interrupted"
TIMED_OUT: Final = "TimedOut"
# Time between SIGTERM and SIGKILL if the template does not set it: the default of Kubernetes.
GRACE_SECONDS: Final = 30.0

Print = Callable[[Start | None, str], None]


@dataclass(frozen=True)
class LocalRunEnd:
    """The end of a run: an Outcome, INTERRUPTED or TIMED_OUT, with a message."""

    how: str
    said: str


@dataclass(frozen=True)
class Limits:
    """Time limits in seconds: for the run, for the job (activeDeadlineSeconds), and between SIGTERM
    and SIGKILL.

    None means no limit.
    """

    timeout: float | None = None
    deadline: float | None = None
    grace: float = GRACE_SECONDS

    def ends(self) -> Iterator[tuple[float, LocalRunEnd]]:
        """Yield each time limit, with the result of a run that exceeds this limit."""
        if self.timeout is not None:
            yield (
                self.timeout,
                LocalRunEnd(TIMED_OUT, f"the job did not finish within --timeout {self.timeout:g}"),
            )
        if self.deadline is not None:
            said = f"the job did not finish within activeDeadlineSeconds ({self.deadline:g})"
            yield self.deadline, LocalRunEnd(LocalOutcome.FAILED, said)


class Run:
    """Runs one job. `show` prints a line of a rank's output. If the rank is None, the line is a
    message of the run itself.
    """

    def __init__(
        self, starts: Iterable[Start], ledger: LocalFailureAccount, limits: Limits, show: Print
    ) -> None:
        self._starts = tuple(starts)
        self._ledger, self._limits, self._show = ledger, limits, show
        self._groups: dict[int, ProcessGroup] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._pausing: set[int] = set()
        self._ends: asyncio.Queue[tuple[ProcessGroup, int] | LocalRunEnd] = asyncio.Queue()
        # Ranks to restart. None of them starts again before all have exited. Otherwise, a rank of
        # the new world could meet a rank of the old world.
        self._again: set[int] = set()
        self._failures: dict[int, int] = {}
        self._interrupted = False
        self._stdout_closed = False
        self._waiting = EndWait(
            lambda: running_ranks(self._groups), lambda text: self._show(None, text)
        )

    async def run(self) -> LocalRunEnd:
        """Run the job to completion. When this method returns or raises, all of the job's processes
        have exited.
        """
        self._watch_signals()
        for start in self._starts:
            self._begin(start.rank)
        timers = [self._timer(*one) for one in self._limits.ends()]
        try:
            return await self._until_end()
        finally:
            for timer in timers:
                timer.cancel()
            await self._end_all()
            self._waiting.stop()

    def _timer(self, seconds: float, end: LocalRunEnd) -> asyncio.TimerHandle:
        def over() -> None:
            # List the running ranks now, because they are terminated before the message is printed.
            left = format_running(running_ranks(self._groups))
            self._ends.put_nowait(replace(end, said="; ".join(filter(None, [end.said, left]))))

        return asyncio.get_running_loop().call_later(seconds, over)

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._interrupt, number)

    def _interrupt(self, number: signal.Signals) -> None:
        if self._interrupted:
            self._tell(signal.SIGKILL)
            return
        self._interrupted = True
        advice = f"the ranks have {self._limits.grace:g} s to exit; a second signal kills them"
        self._show(None, f"{number.name}: {advice}")
        self._ends.put_nowait(LocalRunEnd(INTERRUPTED, f"stopped by {number.name}"))

    def _print(self, start: Start, text: str) -> None:
        """Print a line of a rank. If the reader of stdout is gone (`| head`), end the run."""
        if self._stdout_closed:
            return
        try:
            self._show(start, text)
        except BrokenPipeError:
            self._stdout_closed = True
            # Python flushes stdout at exit, which would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._ends.put_nowait(LocalRunEnd(INTERRUPTED, "stopped because stdout was closed"))

    async def _until_end(self) -> LocalRunEnd:
        while True:
            event = await self._ends.get()
            if isinstance(event, LocalRunEnd):
                return event
            if end := self._look(*event):
                return end

    def _look(self, group: ProcessGroup, status: int) -> LocalRunEnd | None:
        """Handle the exit of a rank's program.

        If a rank fails and others restart with it, the exits of the others are not counted as
        failures. The operator, too, counts only one failure if it observes all these exits in one
        reconciliation.
        """
        rank = group.start.rank
        # Ignore the exit of an earlier run of this rank.
        if group is not self._groups[rank]:
            return None
        if rank not in self._again:
            decision = self._ledger.ended(rank, status, group.output)
            if decision.said and decision.outcome is None:
                self._show(None, decision.said)
            if decision.outcome is not None:
                return LocalRunEnd(decision.outcome, decision.said)
            self._follow(decision, rank)
            self._wait_for_others(group, status)
        if self._again and not any(self._groups[one].runs for one in self._again):
            self._begin_again()
        return None

    def _wait_for_others(self, group: ProcessGroup, status: int) -> None:
        if not status:
            since = f"rank {group.start.rank} ({group.start.name}) exited 0"
            self._waiting.begin(since, FIRST_SECONDS)
        elif not self._ledger.succeeded:
            self._waiting.stop()

    def _follow(self, decision: Decision, rank: int) -> None:
        self._again |= decision.restart
        for other in decision.restart - {rank}:
            if self._groups[other].runs:
                self._end(other)
        if decision.restart:
            self._failures[rank] = self._failures.get(rank, 0) + 1

    def _end(self, rank: int) -> None:
        group = self._groups[rank]
        group.tell(signal.SIGTERM)

        def kill() -> None:
            if group.runs:
                group.tell(signal.SIGKILL)

        asyncio.get_running_loop().call_later(self._limits.grace, kill)

    def _begin_again(self) -> None:
        ranks, self._again = self._again, set()
        times = max(self._failures.get(rank, 0) for rank in ranks)
        # The first restart is immediate, as with a kubelet.
        pause = doubled_wait(times - 1, PAUSES) if times > 1 else 0.0
        for rank in ranks:
            self._begin(rank, pause)

    def _begin(self, rank: int, pause: float = 0.0) -> None:
        start = self._starts[rank]
        group = ProcessGroup(start, lambda text: self._print(start, text))
        self._groups[rank] = group
        self._tasks[rank] = asyncio.create_task(self._carry(rank, group, pause))

    async def _carry(self, rank: int, group: ProcessGroup, pause: float) -> None:
        self._pausing.add(rank)
        await asyncio.sleep(pause)
        self._pausing.discard(rank)
        self._ends.put_nowait((group, await group.run()))

    def _tell(self, number: signal.Signals) -> None:
        for group in self._groups.values():
            group.tell(number)

    async def _end_all(self) -> None:
        """Send SIGTERM to all ranks, and SIGKILL after the grace period."""
        # The run ends. So a rank that is still waiting for its restart must no longer be started.
        for rank in self._pausing:
            self._tasks[rank].cancel()
        grace = f"ranks that are still running are killed after {self._limits.grace:g} s"
        for number, then in ((signal.SIGTERM, grace), (signal.SIGKILL, "")):
            left = [task for task in self._tasks.values() if not task.done()]
            if left:
                self._tell(number)
                self._waiting.begin(number.name, ENDING_SECONDS, then)
                await asyncio.wait(left, timeout=self._limits.grace)
