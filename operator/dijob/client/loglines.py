"""Lines of the ranks' logs: timestamps, order, and the removal of duplicates.

A log stream that breaks is opened again, but the kubelet can start it only at a whole second. So
some lines arrive twice, and `Cursor` recognizes the repeated ones.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dijob.api.numbers import parse_natural
from dijob.names import MAX_REPLICAS

_SECOND: Final = 10**9
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, order=True)
class Line:
    """A line that a rank has printed. `time` is in nanoseconds since 1970, according to the clock
    of the rank's node.
    """

    time: int
    rank: int
    pod: str = field(compare=False)
    text: str = field(compare=False)

    @property
    def stamp(self) -> str:
        """The time in RFC 3339 format, in UTC with milliseconds."""
        moment = datetime.fromtimestamp(self.time // _SECOND, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{self.time % _SECOND // 10**6:03d}Z"


@dataclass(frozen=True)
class LogOptions:
    """The selected lines. `ranks` is None for all ranks; `since` is in seconds; `tail` applies to
    each rank.
    """

    ranks: frozenset[int] | None = None
    task: str = ""
    follow: bool = False
    previous: bool = False
    since: int | None = None
    tail: int | None = None

    def wants(self, rank: int, task: str) -> bool:
        """Return whether the lines of this rank are selected."""
        return (self.ranks is None or rank in self.ranks) and (not self.task or task == self.task)


@dataclass
class Cursor:
    """The position in the log of one pod.

    The kubelet's sinceTime has a resolution of one second. So the lines of the last two seconds are
    remembered, and are not returned twice. Equal lines are counted, because a program may print the
    same text several times.
    """

    last: int = 0
    _seen: Counter[tuple[int, str]] = field(default_factory=Counter)
    _again: Counter[tuple[int, str]] = field(default_factory=Counter)
    _horizon: int = 0

    @property
    def since(self) -> str | None:
        """The sinceTime from which to continue; None for the beginning of the log."""
        if not self.last:
            return None
        return f"{datetime.fromtimestamp(self.last // _SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def reopen(self) -> None:
        """Prepare for a new stream, which may repeat lines."""
        self._again = Counter(self._seen)
        self._horizon = (self.last // _SECOND - 1) * _SECOND

    def is_new(self, time: int, text: str) -> bool:
        """Return whether a line is new, and remember it."""
        key = (time, text)
        # Lines that are older than the horizon are not remembered, but were certainly read before.
        if time < self._horizon:
            return False
        if self._again[key] > 0:
            self._again[key] -= 1
            return False
        # When a new second begins, forget the lines that no later stream can repeat.
        if time // _SECOND > self.last // _SECOND:
            oldest = (time // _SECOND - 1) * _SECOND
            self._seen = Counter({k: n for k, n in self._seen.items() if k[0] >= oldest})
        self.last = max(self.last, time)
        self._seen[key] += 1
        return True


def split_timestamp(raw: str) -> tuple[int, str]:
    """Return the time and the text of a line. The time is 0 if the line has no timestamp.

    The kubelet puts a timestamp before each line, except before its own messages, such as "unable
    to retrieve container logs".
    """
    stamp, _, text = raw.rstrip("\n").partition(" ")
    found = _STAMP.fullmatch(stamp)
    if found is None:
        return 0, raw.rstrip("\n")
    whole = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
    return int(whole.timestamp()) * _SECOND + int((found[2] or "0").ljust(9, "0")), text


def ranks_in(text: str) -> frozenset[int]:
    """Parse a list of ranks such as 0-2,5. Raises ValueError, which says what is wrong."""
    found: set[int] = set()
    for part in map(str.strip, text.split(",")):
        begin, dash, end = part.partition("-")
        first, last = parse_natural(begin), parse_natural(end if dash else begin)
        if first is None or last is None:
            raise ValueError(f"{_quote_part(part)} is not a rank; specify ranks in the form 0-2,5")
        if last < first:
            raise ValueError(
                f"{_quote_part(part)} is an empty range; specify ranks in the form 0-2,5"
            )
        # The range is checked before the set is extended: a billion ranks would exhaust the memory.
        if last >= MAX_REPLICAS:
            raise ValueError(
                f"{_quote_part(part)}: rank {last} cannot exist, the highest rank is"
                f" {MAX_REPLICAS - 1}"
            )
        found.update(range(first, last + 1))
    return frozenset(found)


def _quote_part(part: str) -> str:
    return repr(part if len(part) <= 40 else f"{part[:40]}...")


def find_unknown_ranks(wanted: Iterable[int], size: int) -> list[int]:
    """Return the wanted ranks that do not exist in a job of this size."""
    return sorted(rank for rank in wanted if rank >= size)
