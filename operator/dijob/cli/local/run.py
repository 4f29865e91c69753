"""Runs the ranks until the job has ended, and leaves no process."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from dijob.cli.local.group import Group
from dijob.cli.local.ledger import Decision, Ledger, Outcome
from dijob.cli.local.plan import Start
from dijob.cli.local.waiting import ENDING_SECONDS, FIRST_SECONDS, Waiting, named, running
from dijob.core.backoff import doubled

# A kubelet waits 10 s, 20 s, ... before it starts a container again; nobody needs that here.
PAUSES: Final = (1.0, 10.0)
INTERRUPTED: Final = "Interrupted"
TIMED_OUT: Final = "TimedOut"
# Between SIGTERM and SIGKILL, where the template says nothing: Kubernetes' own.
GRACE_SECONDS: Final = 30.0

Print = Callable[[Start | None, str], None]


@dataclass(frozen=True)
class End:
    """How it ended: an Outcome, INTERRUPTED or TIMED_OUT; and a sentence."""

    how: str
    said: str


@dataclass(frozen=True)
class Limits:
    """How long the run may take (seconds; None: any time), the job's own deadline, and how long an
    end may take."""

    timeout: float | None = None
    deadline: float | None = None
    grace: float = GRACE_SECONDS

    def ends(self) -> Iterator[tuple[float, End]]:
        """After how many seconds it ends, and how."""
        if self.timeout is not None:
            yield (
                self.timeout,
                End(TIMED_OUT, f"it has not ended within --timeout {self.timeout:g}"),
            )
        if self.deadline is not None:
            said = f"it has not ended within activeDeadlineSeconds, {self.deadline:g}"
            yield self.deadline, End(Outcome.FAILED, said)


class Run:
    """One run of a job. `show` prints a line of a rank, or of the run itself (None)."""

    def __init__(
        self, starts: Iterable[Start], ledger: Ledger, limits: Limits, show: Print
    ) -> None:
        self._starts = tuple(starts)
        self._ledger, self._limits, self._show = ledger, limits, show
        self._groups: dict[int, Group] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._pausing: set[int] = set()
        self._ends: asyncio.Queue[tuple[Group, int] | End] = asyncio.Queue()
        # Ranks that start again once all of them have ended.
        self._again: set[int] = set()
        self._failures: dict[int, int] = {}
        self._interrupted = False
        self._unheard = False
        self._waiting = Waiting(lambda: running(self._groups), lambda text: self._show(None, text))

    async def run(self) -> End:
        """Run to the end of the job; all its processes have ended then, whatever happens."""
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

    def _timer(self, seconds: float, end: End) -> asyncio.TimerHandle:
        def over() -> None:
            who = named(running(self._groups))
            self._ends.put_nowait(replace(end, said=": ".join(filter(None, [end.said, who]))))

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
        said = f"the ranks have {self._limits.grace:g} s to end; once more kills them"
        self._show(None, f"{number.name}: {said}")
        self._ends.put_nowait(End(INTERRUPTED, f"ended by {number.name}"))

    def _print(self, start: Start, text: str) -> None:
        """Who reads the output may have gone (`| head`): that is the end, as of any program."""
        if self._unheard:
            return
        try:
            self._show(start, text)
        except BrokenPipeError:
            self._unheard = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._ends.put_nowait(End(INTERRUPTED, "nobody reads the output any more"))

    async def _until_end(self) -> End:
        while True:
            event = await self._ends.get()
            if isinstance(event, End):
                return event
            if end := self._look(*event):
                return end

    def _look(self, group: Group, status: int) -> End | None:
        """What follows from the end of a rank's program. One that is to start again with others
        has not failed on its own account, as in a pass of the operator that finds both ends."""
        rank = group.start.rank
        if group is not self._groups[rank]:
            return None
        if rank not in self._again:
            decision = self._ledger.ended(rank, status)
            if decision.said and decision.outcome is None:
                self._show(None, decision.said)
            if decision.outcome is not None:
                return End(decision.outcome, decision.said)
            self._follow(decision, rank)
            self._wait_for_others(group, status)
        if self._again and not any(self._groups[one].runs for one in self._again):
            self._begin_again()
        return None

    def _wait_for_others(self, group: Group, status: int) -> None:
        if not status:
            said = f"rank {group.start.rank} ({group.start.name}) has exited 0"
            self._waiting.begin(said, FIRST_SECONDS)
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
        pause = doubled(times - 1, PAUSES) if times > 1 else 0.0
        for rank in ranks:
            self._begin(rank, pause)

    def _begin(self, rank: int, pause: float = 0.0) -> None:
        start = self._starts[rank]
        group = Group(start, lambda text: self._print(start, text))
        self._groups[rank] = group
        self._tasks[rank] = asyncio.create_task(self._carry(rank, group, pause))

    async def _carry(self, rank: int, group: Group, pause: float) -> None:
        self._pausing.add(rank)
        await asyncio.sleep(pause)
        self._pausing.discard(rank)
        self._ends.put_nowait((group, await group.run()))

    def _tell(self, number: signal.Signals) -> None:
        for group in self._groups.values():
            group.tell(number)

    async def _end_all(self) -> None:
        """TERM, and KILL after the grace period; who waits for a start is not started any more."""
        for rank in self._pausing:
            self._tasks[rank].cancel()
        grace = f"after {self._limits.grace:g} s they are killed"
        for number, then in ((signal.SIGTERM, grace), (signal.SIGKILL, "")):
            left = [task for task in self._tasks.values() if not task.done()]
            if left:
                self._tell(number)
                self._waiting.begin(number.name, ENDING_SECONDS, then)
                await asyncio.wait(left, timeout=self._limits.grace)
