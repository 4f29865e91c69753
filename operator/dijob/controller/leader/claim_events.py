"""Events on jobs that this operator skips because another release claims the namespace (claims.py).

A user with write access to Leases can claim a namespace and thereby stop its jobs. Without an
event, nothing would explain why the jobs make no progress. The status of an existing job does not
change, and a new job has no status. A user can change such a Lease very often, so the number of
events is limited. A job gets at most one event in REPORT_SECONDS, and at most AT_ONCE jobs get one
in each period of LOOK_SECONDS.
"""

from typing import Final

from dijob.api.model import Metadata
from dijob.controller.cache.jobs import Jobs
from dijob.controller.leader.claims import LOOK_SECONDS, Claims
from dijob.controller.queue.workqueue import Key
from dijob.controller.write.recorder import Recorder
from dijob.core.actions import Event
from dijob.process.clock import SYSTEM, Clock

REPORT_SECONDS: Final = 1800.0
AT_ONCE: Final = 20
REASON: Final = "NamespaceClaimed"


class ClaimEvents:
    """Posts events on jobs in namespaces that other releases claim."""

    def __init__(
        self, claims: Claims, jobs: Jobs, recorder: Recorder, clock: Clock = SYSTEM
    ) -> None:
        self._claims = claims
        self._jobs = jobs
        self._recorder = recorder
        self._clock = clock
        self._reported: dict[Key, float] = {}
        self._round = (float("-inf"), 0)

    async def report(self, key: Key) -> float:
        """Post the event on one job if it is due. Return the seconds until the next call."""
        now, body = self._clock.monotonic(), self._jobs.get(key)
        # The job was deleted. A new job with the same name is reported at once.
        if body is None:
            self._reported.pop(key, None)
        elif now - self._reported.get(key, float("-inf")) >= REPORT_SECONDS and self._takes(now):
            self._reported[key] = now
            job = Metadata.model_validate(body["metadata"])
            # Not a warning: in a cluster with two releases, this is the normal state.
            event = Event(REASON, self._claims.notice(key[0]), warning=False)
            await self._recorder.tell(job, event)
        return LOOK_SECONDS

    def served(self, key: Key) -> None:
        """Record that this operator reconciles the job, so a later claim is reported at once."""
        self._reported.pop(key, None)

    def _takes(self, now: float) -> bool:
        """Return whether another event may be posted in this period, and count it."""
        began, posted = self._round
        if now - began >= LOOK_SECONDS:
            began, posted = now, 0
        self._round = began, posted + 1
        return posted < AT_ONCE
