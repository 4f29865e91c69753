"""Failure accounting: which ranks have succeeded, how many failures count against backoffLimit, and
what the first failure was.

A pod's status shows only totals and the last terminations, and is deleted with the pod. So the
job's status records what has been counted for each pod (status.restartsSeen), and only the
difference counts as new. This makes the count exact across crashes of the operator
(docs/decisions/045).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dijob.api.status import Charge, FirstFailure, Status, format_time, parse_time
from dijob.core.members import Gang, compact_ranks, parse_ranks
from dijob.core.membership import gang_restart, restart
from dijob.core.membership.list_state import ListState
from dijob.core.membership.losses import has_moved
from dijob.core.membership.policy import Policy
from dijob.core.membership.world import World
from dijob.core.observed import shape
from dijob.core.observed.containers import RESTARTED_WITH_ALL, is_unobserved_end
from dijob.core.observed.endings import UNRECORDED, ContainerEnding
from dijob.core.observed.views import Observed, Pod
from dijob.names import FailureAction

MESSAGE_LIMIT = 1024
# A client of redis-py 7.1 tries to reconnect three times, after pauses of up to 2, 4 and 8 s
# (Redis.__init__). Several clients reconnect one after the other.
RECONNECT_SECONDS = 20


@dataclass(frozen=True)
class FailureAccount:
    """The part of the job's status that cannot be observed again once the pods are deleted."""

    succeeded: frozenset[int]
    charges: Mapping[int, Charge]
    restarts: int
    first_failure: FirstFailure | None
    # The failures that this reconciliation has found, oldest first, and the actions of the failure
    # policy. The actions are not stored, because the write that stores the count also records their
    # effects.
    new: Mapping[int, FailureAction] = field(default_factory=dict, compare=False)

    def into(self, status: Status) -> Status:
        """Return the status with this account in it."""
        return status.model_copy(
            update={
                "succeeded_ranks": compact_ranks(self.succeeded),
                "restarts_seen": tuple(self.charges[rank] for rank in sorted(self.charges)),
                "restarts": self.restarts,
                "first_failure": self.first_failure,
            }
        )


def read_ledger(status: Status, gang: Gang) -> FailureAccount:
    """Return the stored account. If the tasks have changed, the rank numbers have a new meaning, so
    no rank counts as succeeded. Such a change is possible during a suspension.
    """
    same = gang.task_sizes == status.tasks
    charges = {charge.rank: charge for charge in status.restarts_seen if same}
    succeeded = parse_ranks(status.succeeded_ranks) if same else frozenset[int]()
    return FailureAccount(
        succeeded=succeeded,
        charges=charges,
        restarts=status.restarts,
        first_failure=status.first_failure,
    )


def with_successes(ledger: FailureAccount, world: World, policy: Policy) -> FailureAccount:
    """Return a copy of the account. The ranks that have succeeded according to their pods are added
    to it. Until a resumed job has its first list, a rank does not count as succeeded if another
    rank of its group must still run.
    """
    done = frozenset(
        rank for rank in gang_restart.succeeded_ranks(world) if policy.is_counted(world.pods[rank])
    )
    succeeded = ledger.succeeded | done
    # The size of a suspended job may change several times before the job is resumed.
    if world.state is ListState.NONE and not policy.suspended:
        succeeded = gang_restart.complete_successes(world, succeeded)
    return replace(ledger, succeeded=succeeded)


def with_failures(
    ledger: FailureAccount,
    world: World,
    policy: Policy,
    now: datetime,
    failed_without_redis: frozenset[int] = frozenset(),
) -> FailureAccount:
    """Return the account with new failures added: those that the pods show and the account lacks.

    A failure is a termination with an error. Terminations in a pod that is being deleted, or is
    about to be deleted because of its stale peer list, are not failures. The following failures are
    not counted:
    - failures that a rule of the failure policy ignores (policy.py);
    - failures of a pod whose address has changed because its sandbox died (for example, when its
      node rebooted);
    - a failure that the kubelet did not observe, because the sandbox died with the program;
    - requested restarts with a new peer list;
    - failures of the `failed_without_redis` ranks, unless a rule matches them.

    A pod whose sandbox has just died is judged once it has a new sandbox. The third entry does not
    depend on the address, because an operator that has restarted may not know the old address.

    If one failure restarts all ranks, all failures found in this reconciliation count as one. The
    failure of one rank terminates the programs of the others, and one restart follows. The same
    applies to the failures of a group that restarts.
    """
    charges, found, failures = dict(ledger.charges), dict[int, FailureAction](), 0
    groups = set[range]()
    for rank, pod in sorted(world.pods.items(), key=_oldest_first):
        if (
            not (pod.containers.sandbox and policy.is_counted(pod))
            or rank in world.ranks_to_recreate
        ):
            continue
        # A new pod starts with a new count. Its uid distinguishes it from the previous pod.
        charge = charges.get(rank)
        before = charge if charge and charge.uid == pod.uid else Charge(rank=rank, uid=pod.uid)
        new = _count_new_failures(pod, before, policy)
        if new <= 0:
            continue
        # Ignored failures are recorded, too. Otherwise, the next reconciliation would judge them
        # again.
        action = policy.action(pod)
        without = rank in failed_without_redis and policy.rule(pod) is None
        lost = has_moved(world, pod) or _ended_unobserved(pod)
        forgiven = without or lost or action is FailureAction.IGNORE
        charges[rank] = _update_charge(pod, before, new, forgiven)
        if more := charges[rank].failures - before.failures:
            found[rank] = action
            joined = rank < world.listed_size and not world.no_rank_runs
            group = policy.failing_group(pod) if joined else None
            if group is None:
                failures += more
            else:
                groups.add(group)
    failures += len(groups)
    if FailureAction.RESTART_JOB in found.values() and not world.no_rank_runs:
        failures = 1
    first = ledger.first_failure or next(
        (first_of(world.pods[rank], charges[rank], now) for rank in found), None
    )
    restarts = ledger.restarts + failures
    return replace(ledger, charges=charges, restarts=restarts, first_failure=first, new=found)


def failed_without_redis(gang: Gang, observed: Observed) -> frozenset[int]:
    """Return the ranks whose failure, if there is one, may be due to a missing Redis server.
    DI-engine's emit raises if it cannot send (ding/framework/message_queue/redis.py, publish).
    """
    if not gang.server:
        return frozenset()
    server = observed.unranked_pod(gang.server)
    # While the server is not ready, any rank may fail because of it.
    if server is None or not server.ready:
        return frozenset(observed.pods)
    back = parse_time(server.containers.started)
    ends = ((rank, parse_time(pod.containers.ended)) for rank, pod in observed.pods.items())
    return frozenset(
        r for r, end in ends if end and back and (end - back).total_seconds() < RECONNECT_SECONDS
    )


def _oldest_first(ranked: tuple[int, Pod]) -> tuple[str, int]:
    """The sort key is the end time, then the rank, because several terminations can have the same
    timestamp. The first failure usually causes the others.
    """
    rank, pod = ranked
    return (pod.containers.last_end.at if pod.containers.last_end else "") or "~", rank


def _update_charge(pod: Pod, before: Charge, new: int, forgiven: bool) -> Charge:
    """Return the updated accounting of a pod. `new` is the number of its new terminations."""
    uncharged = restart.uncharged_ends(pod, before, new)
    on_purpose = _restarted_on_purpose(pod, before, new - uncharged)
    return Charge(
        rank=pod.rank,
        uid=pod.uid,
        restarts=max(before.restarts, pod.containers.failures - pod.containers.init_failures),
        init_restarts=max(before.init_restarts, pod.containers.init_failures),
        disrupted=pod.placement.disrupted,
        failures=before.failures + (0 if forgiven else new - uncharged - on_purpose),
        renewed=restart.answered_request(pod, before) if uncharged else before.renewed,
        shape=pod.made.shape if on_purpose else before.shape,
        excused_at=pod.containers.ended if uncharged or on_purpose else before.excused_at,
    )


def was_excused(pod: Pod, charge: Charge) -> bool:
    """Whether the main container last terminated because of a deliberate restart rather than a
    failure."""
    at = charge.excused_at
    return _restarted_with_all(pod) or (bool(at) and at == pod.containers.ended)


def _restarted_on_purpose(pod: Pod, before: Charge, new: int) -> int:
    """Return how many of a pod's new terminations were deliberate restarts by the kubelet, whatever
    their exit codes. `new` is the number of new terminations. It does not include the
    restarts that the operator requested because of a new peer list.

    A container counts if its image changed, or if its resources changed under the resize policy
    RestartContainer. Changes count if they happened after the container started, and were not
    counted before. If a restart rule of one container restarts all containers, each of them counts.
    """
    now = shape.split_shape(pod.made.shape)
    was = shape.split_shape(before.shape or pod.copy.first_shape)
    changed = sum(one != other for one, other in zip(was, now, strict=False))
    by_rule = len(now) if _restarted_with_all(pod) and new >= len(now) else 0
    return min(new, changed + by_rule)


def _ended_unobserved(pod: Pod) -> bool:
    """Return whether the kubelet missed the last termination in this pod. The result is False if
    the pod has failed.
    """
    return not pod.failed and is_unobserved_end(pod.containers.last_end)


def _restarted_with_all(pod: Pod) -> bool:
    end = pod.containers.last_end
    return end is not None and end.reason == RESTARTED_WITH_ALL


def _count_new_failures(pod: Pod, before: Charge, policy: Policy) -> int:
    """Return how many failures of a pod are new.

    For a disrupted pod that has not succeeded, the result is 1 if the disruption matches a rule and
    has not been counted yet; else it is 0. The result is also 0 if the pod is being deleted for
    another reason, or if its node cannot mount the launcher's image. Otherwise, it is the number of
    uncounted failures of its containers. Init containers are counted separately, because once they
    succeed, their status no longer shows how often they failed.
    """
    if pod.unmountable:
        return 0
    if pod.placement.disrupted and not pod.containers.succeeded:
        return 1 if policy.rule(pod) is not None and not before.disrupted else 0
    if pod.deleting:
        return 0
    others = pod.containers.failures - pod.containers.init_failures
    init = max(0, pod.containers.init_failures - before.init_restarts)
    return max(0, others - before.restarts) + init


def first_of(pod: Pod, charge: Charge, now: datetime) -> FirstFailure:
    """Return the failure that a pod shows."""
    # Only the last termination is visible. If that termination was a deliberate restart, the
    # failure came before it, and the details of the failure are lost.
    end = None if was_excused(pod, charge) else pod.containers.last_end
    return FirstFailure(
        rank=pod.rank,
        pod=pod.name,
        container=end.container if end else "",
        node=pod.placement.node,
        exit_code=end.exit_code if end else None,
        signal=end.signal or None if end else None,
        reason=end.reason if end else pod.phase if pod.failed else UNRECORDED,
        message=_failure_message(pod, end)[-MESSAGE_LIMIT:],
        cause=end.cause if end else "",
        time=format_time(now),
    )


def _failure_message(pod: Pod, end: ContainerEnding | None) -> str:
    """Return the termination message of the container that failed, or the reason why the whole pod
    was terminated.
    """
    if end is None or (pod.phase == "Failed" and not end.message):
        return pod.complaint
    return end.message
