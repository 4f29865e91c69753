"""Says which ranks still run where others have ended, and since when."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dijob.cli.local.group import Group

# The ranks of a job end within seconds of one another, also where their machine is busy.
FIRST_SECONDS: Final = 30.0
# Between SIGTERM and SIGKILL.
ENDING_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Running:
    """A rank whose program runs: its process, and for how many seconds."""

    rank: int
    pid: int
    seconds: float


def running(groups: Mapping[int, Group]) -> list[Running]:
    """The ranks of these that run now."""
    now = asyncio.get_running_loop().time()
    return [
        Running(rank, group.pid, now - group.began)
        for rank, group in sorted(groups.items())
        if group.runs and group.began
    ]


def named(left: Sequence[Running]) -> str:
    """Who still runs, "" for nobody."""
    if not left:
        return ""
    each = (f"rank {one.rank} (process {one.pid}, for {one.seconds:.0f} s)" for one in left)
    return f"{', '.join(each)} still {'runs' if len(left) == 1 else 'run'}"


def still(left: Sequence[Running], since: str, seconds: float, then: str = "") -> str:
    """The sentence, "" where nobody runs any more. `since` is what happened `seconds` ago."""
    said = f"{named(left)}, {seconds:.0f} s after {since}{f'; {then}' if then else ''}"
    return said if left else ""


class Waiting:
    """Asks who still runs, ever less often, and says it. `left` tells who runs now."""

    def __init__(self, left: Callable[[], Sequence[Running]], say: Callable[[str], None]) -> None:
        self._left, self._say = left, say
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, since: str, first: float, then: str = "") -> None:
        """From now on, for the first time after `first` seconds; what it said before of another
        wait ends."""
        self.stop()
        loop = asyncio.get_running_loop()
        began = loop.time()

        def tell(pause: float) -> None:
            if text := still(self._left(), since, loop.time() - began, then):
                self._say(text)
                self._timer = loop.call_later(2 * pause, tell, 2 * pause)

        self._timer = loop.call_later(first, tell, first)

    def stop(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
