"""The API server's clock, estimated from the Date header of its responses.

Every time of a job is written and compared by this clock. Two operators' machines may differ by
minutes: if one wrote when a job began and another one compared that with its own time, a takeover
would end the job before its deadline. The API server also writes the creationTimestamps that are
compared, and it is the only clock that all operators share.
"""

import logging
import math
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz

from dijob.shell.clock import STEP, Clock

log = logging.getLogger(__name__)

# A bound of how far the clock is ahead counts for one to two of these periods.
PERIOD_SECONDS = 60.0


class ServerClock(Clock):
    """The machine's own clock, unless that differs from the API server's by more than STEP. It is
    the machine's, too, before the first response, and if a proxy removes the header.

    Date is cut to whole seconds, and the request took a while. Each response therefore gives an
    upper bound of how far the API server's clock is ahead of the monotonic one. The smallest bound
    of the last minutes counts. If several API servers differ, that is the slowest one, and time
    does not jump between them. A time that is too early delays a deadline; one that is too late
    would end a job that has time left.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = -math.inf
        # The smallest bound of this period, and of the one before; inf if there was no response.
        self._least = self._least_before = math.inf

    def now(self) -> datetime:
        own, ahead = self._clock.now(), min(self._least, self._least_before)
        if math.isinf(ahead):
            return own
        there = datetime.fromtimestamp(ahead + self._clock.monotonic(), UTC)
        return own if abs(there - own) <= STEP else there

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        return self._clock.spread(seconds, share)

    def answered(self, date: str, asked: float) -> None:
        """Take in the Date header of a response; `asked` is the monotonic time of the request."""
        if (seconds := _seconds(date)) is None:
            return
        first = math.isinf(self._least)
        now, bound = self._clock.monotonic(), seconds + 1 - asked
        if now - self._begun < PERIOD_SECONDS:
            self._least = min(self._least, bound)
            return
        recent = now - self._begun < 2 * PERIOD_SECONDS
        self._least_before = self._least if recent else math.inf
        self._begun, self._least = now, bound
        if first and abs(off := self._clock.now() - self.now()) > STEP:
            text = "this machine's clock differs by %+.0f s from the API server's, which is used"
            log.warning(text, off.total_seconds())


def _seconds(date: str) -> float | None:
    """Seconds since 1970 of an HTTP date; None if it is none."""
    try:
        return float(mktime_tz(parsed)) if (parsed := parsedate_tz(date)) else None
    except (ValueError, OverflowError):
        return None
