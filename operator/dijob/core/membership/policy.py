"""Applies spec.failurePolicy and spec.successPolicy: how the job reacts to a failure, and which
ranks must succeed for the job to succeed.
"""

from collections.abc import Set
from dataclasses import dataclass

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parts import FailureRule
from dijob.core.members import Gang
from dijob.core.observed.views import Pod
from dijob.names import FailureAction

# The exit code of a program that was terminated by SIGTERM: 128 + 15.
ASKED_TO_END = 143


@dataclass(frozen=True)
class Policy:
    """One job's failure and success policies, and the gang to which they apply.

    `preemptible` means that a termination by SIGTERM is not a failure. `success` says which
    ranks decide whether the job succeeds: all ranks, rank 0, or the ranks of the task it names.
    `suspended` means that a suspension is stored, so pods terminate because the operator deletes
    them.
    """

    gang: Gang
    rules: tuple[FailureRule, ...] = ()
    preemptible: bool = False
    success: str = names.ALL_REPLICAS
    suspended: bool = False

    @staticmethod
    def of(job: DIJob, gang: Gang) -> "Policy":
        spec = job.spec
        return Policy(
            gang=gang,
            rules=spec.failure_policy.rules,
            preemptible=spec.preemptible,
            success=spec.success_policy,
            suspended=bool(job.status.suspend_time),
        )

    def is_counted(self, pod: Pod) -> bool:
        """Whether failures and successes of the pod are counted. A pod that terminates because of a
        suspension is ignored.
        """
        return not (self.suspended and pod.deleting)

    def rule(self, pod: Pod) -> int | None:
        """Return the index of the first rule that matches the failure of this pod, or None."""
        return next((at for at, rule in enumerate(self.rules) if self._matches(rule, pod)), None)

    def action(self, pod: Pod) -> FailureAction:
        """Return the action for the failure of this pod. If no rule matches, disruptions are
        ignored, and so is a termination by SIGTERM if the job is preemptible (DI-orchestrator 1.1,
        pkg/utils/util.go).
        """
        if (at := self.rule(pod)) is not None:
            return self.rules[at].action
        ending = pod.containers.last_end
        asked = self.preemptible and ending is not None and ending.exit_code == ASKED_TO_END
        if pod.placement.disrupted or asked:
            return FailureAction.IGNORE
        return FailureAction.RESTART_JOB if self.gang.has_gang_restart else FailureAction.RESTART

    def failing_group(self, pod: Pod) -> range | None:
        """Return the group of ranks that restarts because this pod has failed; None if its rank is
        in no group.

        Also return None if a rule of the failure policy applies, because such a rule concerns only
        the rank itself.
        """
        if self.rule(pod) is not None or self.action(pod) is not FailureAction.RESTART:
            return None
        return next((group for group in self.gang.groups if pod.rank in group), None)

    def fulfilled(self, succeeded: Set[int], waiting: Set[int]) -> bool:
        """Whether the decisive ranks have succeeded, or no rank is left to wait for."""
        return not waiting or (self.success != names.ALL_REPLICAS and self.decisive <= succeeded)

    @property
    def decisive(self) -> Set[int]:
        """The decisive ranks: the job succeeds when all of them have succeeded."""
        if self.success == names.ALL_REPLICAS:
            return frozenset(range(self.gang.size))
        return frozenset({0} if self.success == names.RANK_0 else self.gang.ranks_of(self.success))

    @property
    def decisive_in_words(self) -> str:
        """The decisive ranks as the subject of a sentence, with "has" or "have"."""
        if self.success == names.ALL_REPLICAS:
            return "all ranks have"
        return "rank 0 has" if self.decisive == {0} else f"all ranks of task {self.success} have"

    def _matches(self, rule: FailureRule, pod: Pod) -> bool:
        if (
            pod.placement.disrupted
            and not rule.on_pod_conditions
            and rule.action is not FailureAction.IGNORE
        ):
            return False  # Only a rule that names a pod condition treats a disruption as a failure.
        if rule.task and (
            (task := self.gang.member(pod.rank).task) is None or task.name != rule.task
        ):
            return False
        if rule.on_exit_codes is not None:
            code = pod.containers.last_end.exit_code if pod.containers.last_end else None
            listed = code in rule.on_exit_codes.values
            # A rule about exit codes matches neither an unknown exit code nor 0.
            if not code or listed != (rule.on_exit_codes.operator == "In"):
                return False
        wanted = [
            f"{condition.type}={condition.status}" for condition in rule.on_pod_conditions or ()
        ]
        return not wanted or any(condition in pod.placement.conditions for condition in wanted)
