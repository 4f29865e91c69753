"""Reports ranks that keep running although others have exited.

A run does not end while one rank hangs. The report names the rank's process, so that the user can
inspect the process, for example with py-spy.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dijob_extras.local.group import ProcessGroup

# The delay of the first report after a rank has exited 0. The other ranks of the job usually exit
# within seconds, even on a busy machine.
FIRST_SECONDS: Final = 30.0
# The delay of the first report after SIGTERM or SIGKILL.
ENDING_SECONDS: Final = 5.0


@dataclass(frozen=True)
class RunningRank:
    """A rank whose program is running, the id of its process, and the seconds since the process
    started.
    """

    rank: int
    pid: int
    seconds: float


def running_ranks(groups: Mapping[int, ProcessGroup]) -> list[RunningRank]:
    """Return the ranks that are currently running."""
    now = asyncio.get_running_loop().time()
    return [
        RunningRank(rank, group.pid, now - group.began)
        for rank, group in sorted(groups.items())
        if group.runs and group.began
    ]


def format_running(left: Sequence[RunningRank]) -> str:
    """List the ranks that are still running; "" if there are none."""
    if not left:
        return ""
    each = (f"rank {one.rank} (process {one.pid}, for {one.seconds:.0f} s)" for one in left)
    return f"still running: {', '.join(each)}"


def report_running(left: Sequence[RunningRank], since: str, seconds: float, then: str = "") -> str:
    """Return the report; "" if no rank is still running. `since` names an event that happened
    `seconds` ago.
    """
    text = f"{seconds:.0f} s after {since}, {format_running(left)}{f'; {then}' if then else ''}"
    return text if left else ""


class EndWait:
    """Reports running ranks at growing intervals. `left` returns the ranks that are currently
    running.
    """

    def __init__(
        self, left: Callable[[], Sequence[RunningRank]], say: Callable[[str], None]
    ) -> None:
        self._left, self._say = left, say
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, since: str, first: float, then: str = "") -> None:
        """Start to report. The first report is made after `first` seconds. Any earlier reporting
        stops.
        """
        self.stop()
        loop = asyncio.get_running_loop()
        began = loop.time()

        def tell(pause: float) -> None:
            if text := report_running(self._left(), since, loop.time() - began, then):
                self._say(text)
                # The interval doubles, so that a long training run does not fill the terminal.
                self._timer = loop.call_later(2 * pause, tell, 2 * pause)

        self._timer = loop.call_later(first, tell, first)

    def stop(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
