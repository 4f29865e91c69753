"""The state that is shared by all creations of one reconciliation.

A job can have 1,500 pods. If the apiserver rejects the first pod, it rejects the others for the
same reason, for example a quota or a missing service account. The others are then skipped, and get
the same error.
"""

import asyncio

from dijob.api.model import DIJob
from dijob.controller.observe.memory import JobMemory
from dijob.core.members import gang_of
from dijob.core.observed import rejections
from dijob.core.observed.views import ApiRejection, RejectionCause
from dijob.kube.api import CONCURRENT_WRITES


class Batch:
    """The job, its memory, and the rejection that applies to all remaining pods.

    If a creation of the previous reconciliation was rejected, a single request is sent first. The
    other requests are sent when this one succeeds.
    """

    def __init__(self, job: DIJob, memory: JobMemory) -> None:
        self.job = job
        self.gang = gang_of(job)  # computed once rather than for each pod
        self.memory = memory
        self._refused: tuple[str, ApiRejection] | None = None
        self._score = 0
        refused = any(
            rejection.why is not RejectionCause.TAKEN
            for key, rejection in memory.rejections.items()
            if key.startswith("pod/")
        )
        self._withheld = CONCURRENT_WRITES - 1 if refused else 0
        self.permits = asyncio.Semaphore(CONCURRENT_WRITES - self._withheld)

    def refusal_of(self, name: str) -> ApiRejection | None:
        """Return the rejection that applies to the pod of this name, or None if its creation should
        be tried.
        """
        return (
            rejections.of_sibling(self._refused[1], self._refused[0], name)
            if self._refused
            else None
        )

    def answered(self, name: str, rejection: ApiRejection | None) -> None:
        """Note the result of one create request. The other requests may be sent unless the result
        applies to all pods.

        Names of pods that are still terminating are a special case: some of these names may be free
        already. If more than two thirds of the tried names are taken, the rest are not tried.
        """
        ending = rejection is not None and rejection.why is RejectionCause.TERMINATING
        # A taken name subtracts 1, and a created pod adds 2. So the score is negative if more than
        # two thirds of the tried names were taken.
        if ending or not rejection:
            self._score = min(CONCURRENT_WRITES, self._score + (-1 if ending else 2))
        if rejection and (self._score < 0 if ending else _for_all(rejection)):
            self._refused = name, rejection
            return
        for _ in range(self._withheld):
            self.permits.release()
        self._withheld = 0


def _for_all(rejection: ApiRejection) -> bool:
    """Whether the other pods of the job would be rejected for the same reason."""
    # TAKEN means that another object has this pod's name. Other names may be free.
    return rejection.why is not RejectionCause.TAKEN
