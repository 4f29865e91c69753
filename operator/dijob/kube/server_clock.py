"""The apiserver's clock, estimated from the Date header of its responses.

The operator takes all times of a job from this clock, and compares them with this clock. The clocks
of two operators' machines can differ by minutes. Suppose that one operator wrote the start time of
a job, and the other operator compared it with its own clock after a takeover. The job could then
fail before its deadline. The apiserver also writes the creationTimestamps, and its clock is the
only one that all replicas share (docs/decisions/040).
"""

import logging
import math
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz

from dijob.process.clock import STEP, Clock

log = logging.getLogger(__name__)

# A measured bound is used for one to two of these periods.
PERIOD_SECONDS = 60.0


class ServerClock(Clock):
    """The apiserver's clock if it differs from the machine's by more than STEP, else the machine's.
    The machine's clock is also used before the first response, and if a proxy removes the Date
    header.

    The Date header has a resolution of one second, and a request takes some time. So each response
    gives an upper bound on how far the apiserver's clock is ahead of the monotonic clock. The
    smallest bound from the past 1 to 2 minutes is used. If there are several apiservers, the one
    whose clock is furthest behind determines the time, so the time does not jump between their
    clocks. A time that is too early only delays a deadline, but a time that is too late would end a
    job before its deadline.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = -math.inf
        # The smallest bound that was measured in this period, and the smallest one that was
        # measured in the previous period. For a period without a response, the value is inf.
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
        """Use the Date header of a response. `asked` is the monotonic time of the request."""
        if (seconds := _parse_http_date(date)) is None:
            return
        first = math.isinf(self._least)
        # The time in the header is truncated to whole seconds, so the apiserver's clock was ahead
        # of it by at most 1 s. The apiserver wrote the header after `asked`. So the difference
        # below is an upper bound.
        now, bound = self._clock.monotonic(), seconds + 1 - asked
        if now - self._begun < PERIOD_SECONDS:
            self._least = min(self._least, bound)
            return
        recent = now - self._begun < 2 * PERIOD_SECONDS
        self._least_before = self._least if recent else math.inf
        self._begun, self._least = now, bound
        # Log only once, after the first response, because the difference usually persists.
        if first and abs(off := self._clock.now() - self.now()) > STEP:
            text = (
                "this machine's clock differs by %+.0f s from the API server's; using the API"
                " server's"
            )
            log.warning(text, off.total_seconds())


def _parse_http_date(date: str) -> float | None:
    """Return an HTTP date as seconds since 1970, or None if it is invalid."""
    try:
        return float(mktime_tz(parsed)) if (parsed := parsedate_tz(date)) else None
    except (ValueError, OverflowError):
        return None
