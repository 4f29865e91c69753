"""What the end of a rank leads to: the operator's rules, for processes instead of pods. Pure."""

from collections.abc import Set
from dataclasses import dataclass, field
from enum import StrEnum

from dijob.api.model import DIJob
from dijob.core.members import gang_of, say
from dijob.core.membership.policy import Policy
from dijob.core.observed.containers import Containers
from dijob.core.observed.endings import Ending
from dijob.core.observed.views import Pod
from dijob.names import FailureAction

SIGNALLED = 128


class Outcome(StrEnum):
    """How the job ends."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class Decision:
    """What follows from an end: the ranks that start again, or the job's outcome; and a sentence
    for people ("" for nothing to say)."""

    restart: frozenset[int] = frozenset()
    outcome: Outcome | None = None
    said: str = ""


@dataclass
class Ledger:
    """What has been counted so far."""

    job: DIJob
    succeeded: set[int] = field(default_factory=set)
    restarts: int = 0
    first_failure: str = ""

    def __post_init__(self) -> None:
        self._gang = gang_of(self.job)
        self._policy = Policy.of(self.job, self._gang)

    def ended(self, rank: int, status: int) -> Decision:
        """The program of a rank has ended by itself: with an exit code, or below 0, by a signal, as
        subprocess has it."""
        end = _ending(status)
        if not status:
            return self._success(rank)
        name = self._gang.member(rank).name
        pod = Pod(rank, name, "", containers=Containers(last_end=end))
        action = self._policy.action(pod)
        words = f"rank {rank} ({name}) {end.words}"
        self.first_failure = self.first_failure or words
        if action is FailureAction.FAIL_JOB:
            return self._failed(f"{words}, and a rule of failurePolicy says FailJob")
        charged = action is not FailureAction.IGNORE
        self.restarts += charged
        limit = self.job.spec.backoff_limit
        if self.restarts > limit:
            return self._failed(f"{words}; backoffLimit is {limit}")
        who = self._again(rank, action)
        verb = "starts" if len(who) == 1 else "start"
        count = f"charged failure {self.restarts} of {limit}" if charged else "not charged"
        return Decision(frozenset(who), said=f"{words} ({count}): {say(who)} {verb} again")

    def _success(self, rank: int) -> Decision:
        self.succeeded.add(rank)
        waiting = set(range(self._gang.size)) - self.succeeded
        if not self._policy.fulfilled(self.succeeded, waiting):
            return Decision()
        return Decision(
            outcome=Outcome.SUCCEEDED, said=f"{self._policy.decisive_in_words} exited 0"
        )

    def _again(self, rank: int, action: FailureAction) -> Set[int]:
        """Who starts again. A group that begins together takes its successes back."""
        if action is not FailureAction.RESTART_JOB:
            return {rank}
        if self._gang.begins_together:
            self.succeeded.clear()
        return set(range(self._gang.size)) - self.succeeded

    def _failed(self, why: str) -> Decision:
        first = self.first_failure
        also = "" if why.startswith(first) else f"; the first failure: {first}"
        return Decision(outcome=Outcome.FAILED, said=f"{why}{also}")


def _ending(status: int) -> Ending:
    """As a kubelet reports it."""
    signal = max(0, -status)
    code = SIGNALLED + signal if signal else status
    return Ending(code, signal, "Error", "")
