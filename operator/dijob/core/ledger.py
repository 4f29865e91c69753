"""What has been counted: ranks that succeeded, failures charged to backoffLimit, the first failure of all."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dijob.core import renewal
from dijob.core.members import compact, expand
from dijob.core.observe import Pod
from dijob.core.world import World
from dijob.spec.status import Charge, FirstFailure, Status, stamp

MESSAGE_LIMIT = 1024


@dataclass(frozen=True)
class Ledger:
    """The part of the status that cannot be observed again, once the pods that it came from are gone."""

    succeeded: frozenset[int]
    charges: Mapping[int, Charge]
    restarts: int
    first_failure: FirstFailure | None

    def into(self, status: Status) -> Status:
        """The status with this ledger written into it."""
        return status.model_copy(
            update={
                "succeeded_ranks": compact(self.succeeded),
                "charged": tuple(self.charges[rank] for rank in sorted(self.charges)),
                "restarts": self.restarts,
                "first_failure": self.first_failure,
            }
        )


def read(status: Status) -> Ledger:
    """The ledger as the last pass left it."""
    charges = {charge.rank: charge for charge in status.charged}
    return Ledger(expand(status.succeeded_ranks), charges, status.restarts, status.first_failure)


def settle(ledger: Ledger, world: World, now: datetime) -> Ledger:
    """Enter what the pods show and the ledger does not have yet.

    Charged is every failure of a pod that nobody is deleting, that is not about to be deleted with its dead list, and
    that no disruption took (design 6.3). What is new about a pod whose address changed is free: its sandbox died under
    it (a node's reboot). One whose sandbox has just died and has no new one yet is judged when it has. A process that
    was ended to start again with a new list has not failed.
    """
    charges, restarts, first = dict(ledger.charges), ledger.restarts, ledger.first_failure
    for rank, pod in sorted(world.pods.items()):
        if pod.deleting or pod.disrupted or not pod.sandbox or rank in world.doomed:
            continue
        charge = charges.get(rank)
        before = charge if charge and charge.uid == pod.uid else Charge(rank=rank, uid=pod.uid)
        new = pod.failures - before.restarts
        if new <= 0:
            continue
        free = renewal.free(pod, before.renewed, new)
        failures = 0 if rank in world.moved else new - free
        charges[rank] = Charge(
            rank=rank,
            uid=pod.uid,
            restarts=pod.failures,
            failures=before.failures + failures,
            renewed=max(before.renewed, pod.renewed, pod.renew_from if free else 0),
        )
        if failures:
            restarts += failures
            first = first or _failure(pod, now)
    succeeded = ledger.succeeded | {rank for rank, pod in world.pods.items() if pod.succeeded}
    return Ledger(succeeded, charges, restarts, first)


def _failure(pod: Pod, now: datetime) -> FirstFailure:
    end = None if pod.renewed else pod.ending  # the failure came before a renewal: only the last end can be seen
    return FirstFailure(
        rank=pod.rank,
        pod=pod.name,
        node=pod.node,
        exit_code=end.exit_code if end else None,
        signal=end.signal or None if end else None,
        reason=end.reason if end else pod.phase,
        message=(end.message if end and end.message else pod.complaint)[-MESSAGE_LIMIT:],
        time=stamp(now),
    )
