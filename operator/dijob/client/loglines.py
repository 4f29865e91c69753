"""Lines of the ranks' logs: their stamps, their order, and which of them were seen before."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dijob.api.numbers import natural
from dijob.names import MAX_REPLICAS

_SECOND: Final = 10**9
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, order=True)
class Line:
    """A line that a rank has printed, `time` in nanoseconds since 1970 by its node's clock."""

    time: int
    rank: int
    pod: str = field(compare=False)
    text: str = field(compare=False)

    @property
    def stamp(self) -> str:
        """Its time as RFC 3339, UTC, in milliseconds."""
        moment = datetime.fromtimestamp(self.time // _SECOND, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{self.time % _SECOND // 10**6:03d}Z"


@dataclass(frozen=True)
class LogOptions:
    """Which lines: `ranks` None for all, `since` in seconds before now, `tail` per rank."""

    ranks: frozenset[int] | None = None
    task: str = ""
    follow: bool = False
    previous: bool = False
    since: int | None = None
    tail: int | None = None

    def wants(self, rank: int, task: str) -> bool:
        """Whether this rank's lines are wanted."""
        return (self.ranks is None or rank in self.ranks) and (not self.task or task == self.task)


@dataclass
class Cursor:
    """How far the log of one pod was read. The kubelet's sinceTime has whole seconds, so what was
    read in the last two of them is remembered, and is not said twice.
    """

    last: int = 0
    _seen: Counter[tuple[int, str]] = field(default_factory=Counter)
    _again: Counter[tuple[int, str]] = field(default_factory=Counter)
    _horizon: int = 0

    @property
    def since(self) -> str | None:
        """From when to read on, as sinceTime; None for the beginning."""
        if not self.last:
            return None
        return f"{datetime.fromtimestamp(self.last // _SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def reopen(self) -> None:
        """What follows may have been read before."""
        self._again = Counter(self._seen)
        self._horizon = (self.last // _SECOND - 1) * _SECOND

    def is_new(self, time: int, text: str) -> bool:
        """Whether a line was not read before; it is from now on."""
        key = (time, text)
        if time < self._horizon:
            return False
        if self._again[key] > 0:
            self._again[key] -= 1
            return False
        if time // _SECOND > self.last // _SECOND:
            oldest = (time // _SECOND - 1) * _SECOND
            self._seen = Counter({k: n for k, n in self._seen.items() if k[0] >= oldest})
        self.last = max(self.last, time)
        self._seen[key] += 1
        return True


def parsed(raw: str) -> tuple[int, str]:
    """Stamp and text of a line as the kubelet gives it with timestamps; 0 where it has none."""
    stamp, _, text = raw.rstrip("\n").partition(" ")
    found = _STAMP.fullmatch(stamp)
    if found is None:
        return 0, raw.rstrip("\n")
    whole = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
    return int(whole.timestamp()) * _SECOND + int((found[2] or "0").ljust(9, "0")), text


def ranks_in(text: str) -> frozenset[int]:
    """The ranks in a list such as 0-2,5. Raises ValueError with what is wrong."""
    found: set[int] = set()
    for part in map(str.strip, text.split(",")):
        begin, dash, end = part.partition("-")
        first, last = natural(begin), natural(end if dash else begin)
        if first is None or last is None:
            raise ValueError(f"{_short(part)} is no rank; ranks are written as in 0-2,5")
        if last < first:
            raise ValueError(f"{_short(part)} has no rank; ranks are written as in 0-2,5")
        # Before the numbers are made: a range of a billion takes all of the memory.
        if last >= MAX_REPLICAS:
            raise ValueError(
                f"{_short(part)}: no job has rank {last}, {MAX_REPLICAS - 1} is the last"
            )
        found.update(range(first, last + 1))
    return frozenset(found)


def _short(part: str) -> str:
    return repr(part if len(part) <= 40 else f"{part[:40]}...")


def unknown(wanted: Iterable[int], size: int) -> list[int]:
    """The ranks that a job of this size does not have."""
    return sorted(rank for rank in wanted if rank >= size)
