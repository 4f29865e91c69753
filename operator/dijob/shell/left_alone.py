"""Events on jobs that this operator leaves alone, because a Lease in their namespace says that
another release serves it (claims.py).

Anyone who may write Leases in a namespace can stop its jobs in this way, and nothing else would say
so: the status of a job stays as it was, and a new job has none. Such a Lease can change as often as
its author likes, so the events are few: one per job in REPORT_SECONDS, and AT_ONCE jobs in a round.
"""

from typing import Final

from dijob.api.model import Metadata
from dijob.core.actions import Event
from dijob.shell.claims import LOOK_SECONDS, Claims
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.jobs import Jobs
from dijob.shell.recorder import Recorder
from dijob.shell.workqueue import Key

REPORT_SECONDS: Final = 1800.0
AT_ONCE: Final = 20
REASON: Final = "NamespaceClaimed"


class LeftAlone:
    """Reports the jobs of namespaces that other releases serve."""

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
        """Post the event about one job, if it is due. Gives the seconds until the next look."""
        now, body = self._clock.monotonic(), self._jobs.get(key)
        if body is None:
            self._reported.pop(key, None)
        elif now - self._reported.get(key, float("-inf")) >= REPORT_SECONDS and self._takes(now):
            self._reported[key] = now
            job = Metadata.model_validate(body["metadata"])
            event = Event(REASON, self._claims.notice(key[0]), warning=False)
            await self._recorder.tell(job, event)
        return LOOK_SECONDS

    def served(self, key: Key) -> None:
        """This operator serves the job's namespace: the next claim is reported at once."""
        self._reported.pop(key, None)

    def _takes(self, now: float) -> bool:
        """Whether one more event fits into this round."""
        began, posted = self._round
        if now - began >= LOOK_SECONDS:
            began, posted = now, 0
        self._round = began, posted + 1
        return posted < AT_ONCE
