"""Applies the operator's policies to local processes after a rank has exited. No I/O.

Only the counting is implemented here. The operator's failure accounting is not used, because it is
designed for pods. Pods are observed late, and possibly twice (docs/decisions/033).
"""

from collections.abc import Set
from dataclasses import dataclass, field
from enum import StrEnum

from dijob.api.model import DIJob
from dijob.api.printed import plain_text
from dijob.core.members import format_ranks, gang_of
from dijob.core.membership.policy import Policy
from dijob.core.observed.containers import Containers
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Pod
from dijob.names import FailureAction

# The shell convention, which container runtimes follow too: 128 + the signal's number.
SIGNALLED = 128


class LocalOutcome(StrEnum):
    """How the job ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class Decision:
    """The consequence of a program's exit: ranks to restart, or the job's outcome.

    `said` is a message for the user, or "".
    """

    restart: frozenset[int] = frozenset()
    outcome: LocalOutcome | None = None
    said: str = ""


@dataclass
class LocalFailureAccount:
    """The state of the job: completed ranks and counted failures."""

    job: DIJob
    succeeded: set[int] = field(default_factory=set)
    restarts: int = 0
    first_failure: str = ""

    def __post_init__(self) -> None:
        self._gang = gang_of(self.job)
        self._policy = Policy.of(self.job, self._gang)

    def ended(self, rank: int, status: int, output: str = "") -> Decision:
        """Record that a rank's program exited on its own, and decide what follows.

        `status` is a return code as in subprocess: an exit code, or a negative signal number.
        `output` is the end of the program's output, which usually says why it failed.
        """
        end = _ending_of_status(status, output)
        if not status:
            return self._success(rank)
        name = self._gang.member(rank).name
        # The policy evaluates pods, so the process is presented as a pod.
        pod = Pod(rank, name, "", containers=Containers(last_end=end))
        action = self._policy.action(pod)
        failure = f"rank {rank} ({name}) {end.words}"
        # Later failures are often only consequences of the first one.
        self.first_failure = self.first_failure or failure
        if action is FailureAction.FAIL_JOB:
            return self._failed(f"{failure}, and a failurePolicy rule has the action FailJob")
        counted = action is not FailureAction.IGNORE
        self.restarts += counted
        limit = self.job.spec.backoff_limit
        if self.restarts > limit:
            return self._failed(f"{failure}; backoffLimit is {limit}")
        ranks = self._again(rank, action)
        count = f"counted failure {self.restarts} of {limit}" if counted else "not counted"
        return Decision(
            frozenset(ranks), said=f"{failure} ({count}): restarting {format_ranks(ranks)}"
        )

    def _success(self, rank: int) -> Decision:
        self.succeeded.add(rank)
        waiting = set(range(self._gang.size)) - self.succeeded
        if not self._policy.fulfilled(self.succeeded, waiting):
            return Decision()
        return Decision(
            outcome=LocalOutcome.SUCCEEDED, said=f"{self._policy.decisive_in_words} exited 0"
        )

    def _again(self, rank: int, action: FailureAction) -> Set[int]:
        """Return the ranks to restart after a failure."""
        if action is not FailureAction.RESTART_JOB:
            return {rank}
        # In a gang restart, completed ranks run again. Otherwise the other ranks would wait for
        # them forever.
        if self._gang.has_gang_restart:
            self.succeeded.clear()
        return set(range(self._gang.size)) - self.succeeded

    def _failed(self, why: str) -> Decision:
        first = self.first_failure
        also = "" if why.startswith(first) else f"; the first failure: {first}"
        return Decision(outcome=LocalOutcome.FAILED, said=f"{why}{also}")


def _ending_of_status(status: int, output: str) -> ContainerEnding:
    """Return a program's termination as a kubelet would report it."""
    signal = max(0, -status)
    code = SIGNALLED + signal if signal else status
    return ContainerEnding(code, signal, "Error", plain_text(output).strip())
