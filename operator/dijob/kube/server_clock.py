"""The apiserver's clock, estimated from the Date header of its responses.

All times of a job are written and compared by this clock. The clocks of two operators' machines can
differ by minutes. If one operator wrote the start time of a job, and the other operator compared it
with its own clock after a takeover, the job could fail before its deadline. The apiserver also
writes the creationTimestamps, and its clock is the only one that all replicas share
(docs/decisions/040).
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
    Before the first response, and if a proxy removes the Date header, it is also the machine's.

    The Date header has whole seconds, and the request took some time. So each response gives an
    upper bound of how far the apiserver's clock is ahead of the monotonic clock. The smallest bound
    of the last minutes is used. With several apiservers, this follows the one whose clock is
    furthest behind, and time does not jump between them. A time that is too early only delays a
    deadline; a time that is too late would end a job before its deadline.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = -math.inf
        # The smallest bound of this period and of the previous one; inf without a response.
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
        # The header was cut to whole seconds, so it may be up to 1 s behind. It was written after
        # the request was sent.
        now, bound = self._clock.monotonic(), seconds + 1 - asked
        if now - self._begun < PERIOD_SECONDS:
            self._least = min(self._least, bound)
            return
        recent = now - self._begun < 2 * PERIOD_SECONDS
        self._least_before = self._least if recent else math.inf
        self._begun, self._least = now, bound
        # Log only once, at the first response: a difference usually stays.
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
