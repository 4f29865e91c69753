"""What the calls of one pass share: the job, its memory, and the answers to creations."""

import asyncio

from dijob.api.model import DIJob
from dijob.core.members import gang_of
from dijob.core.observed import refusals
from dijob.core.observed.views import Refusal, Refused
from dijob.shell.api import CONCURRENT_WRITES
from dijob.shell.memory import Memory


class Batch:
    """What the calls of one pass share. When the apiserver refuses one creation for a reason that
    holds for all, the rest is spared.

    Where it refused the last time, one asks for all, and the others follow when it may.
    """

    def __init__(self, job: DIJob, memory: Memory) -> None:
        self.job = job
        self.gang = gang_of(job)  # once for all pods
        self.memory = memory
        self._refused: tuple[str, Refusal] | None = None
        self._score = 0
        refused = any(
            no.why is not Refused.TAKEN
            for key, no in memory.refusals.items()
            if key.startswith("pod/")
        )
        self._withheld = CONCURRENT_WRITES - 1 if refused else 0
        self.permits = asyncio.Semaphore(CONCURRENT_WRITES - self._withheld)

    def refusal_of(self, name: str) -> Refusal | None:
        """Why the pod of this name need not be tried; None: it is to be tried."""
        return (
            refusals.of_sibling(self._refused[1], self._refused[0], name) if self._refused else None
        )

    def answered(self, name: str, refusal: Refusal | None) -> None:
        """One pod's answer is known: what does not hold for all lets the others ask.

        If old pods still hold more than two of three names that were tried, that is taken as the
        answer for all.
        """
        ending = refusal is not None and refusal.why is Refused.TERMINATING
        if ending or not refusal:
            self._score = min(CONCURRENT_WRITES, self._score + (-1 if ending else 2))
        if refusal and (self._score < 0 if ending else _for_all(refusal)):
            self._refused = name, refusal
            return
        for _ in range(self._withheld):
            self.permits.release()
        self._withheld = 0


def _for_all(refusal: Refusal) -> bool:
    """Whether it would meet the job's other pods as well."""
    return refusal.why is not Refused.TAKEN
