"""The world: the job's pods, compared with the newest peer list."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from dijob.api.status import Status
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, parse_ranks
from dijob.core.membership.address_list import all_verified
from dijob.core.membership.list_state import ListState, list_state
from dijob.core.membership.restart import Restarts, restarts_of
from dijob.core.observed.views import Observed, Pod


@dataclass(frozen=True)
class World:
    """The job's pods, compared with the newest peer list.

    `pods` are the observed pods, with false claims in their annotations corrected
    (address_list.py). `address_list` is the newest list, without addresses if they can no longer be
    verified. `listed_size` is the length of the newest list according to the status, and `state`
    says whether that list is active or stale. `stale_revision` is the revision of the last stale
    list (-1: none). `renewing` are the ranks that must restart because the list is stale: the lost
    ranks and the ranks that connect to them. NNG never finds a peer whose address has changed
    (docs/decisions/006). All other ranks keep running, and also get the next list. `redis_run`
    identifies the run of the job's own Redis server (its pod's uid and restart count); "" if the
    server is not running.
    """

    gang: Gang
    pods: Mapping[int, Pod]
    succeeded: frozenset[int]
    address_list: AddressList
    listed_size: int
    state: ListState
    stale_revision: int
    renewing: frozenset[int]
    restarts: Restarts
    redis_run: str

    @staticmethod
    def of(gang: Gang, observed: Observed, status: Status, now: datetime) -> "World":
        """Return the world according to the pods and the status. `status` must be the result of
        address_list.recover_revision.
        """
        pods, newest = all_verified(gang, observed.pods, observed.published, status)
        last, proof, state = status.last_renewal, status.address_list, list_state(status)
        renewed = (
            (parse_ranks(last.ranks) or frozenset(range(gang.size))) if last else frozenset[int]()
        )
        seen = replace(observed, pods=pods)
        return World(
            gang=gang,
            pods=pods,
            succeeded=parse_ranks(status.succeeded_ranks),
            address_list=newest,
            listed_size=proof.size if proof else gang.size,
            state=state,
            stale_revision=last.list_number if last else -1,
            renewing=renewed if state is ListState.STALE else frozenset(),
            restarts=restarts_of(gang, seen, status, renewed, now),
            redis_run=observed.run_of(gang.server),
        )

    @property
    def list_is_active(self) -> bool:
        """Whether a peer list is active."""
        return self.state is ListState.ACTIVE

    @property
    def list_is_stale(self) -> bool:
        """Whether the newest list is stale and ranks wait for the next one."""
        return self.state is ListState.STALE

    @cached_property
    def size(self) -> int:
        """The number of ranks in the world. If a list is active, these are the ranks in the list.
        If the list is stale, they are the ranks of that list that are still desired. Ranks at the
        end of the list are left out if they are neither running nor restarting. Unfinished ranks
        of a task that is a group are always kept. Without a list, the size is the gang's minimum.
        """
        if self.list_is_active:
            return len(self.address_list.addresses) or self.listed_size or self.gang.size
        if self.state is ListState.NONE:
            # The world includes at least one rank that has not succeeded. Otherwise, a resumed job
            # would have nothing to run.
            return max(self.gang.minimum, self.wanted[0] + 1) if self.wanted else self.gang.minimum
        return min(self.gang.size, max({*self.renewing, *self.survivors, *self._grouped}) + 1)

    @cached_property
    def wanted(self) -> tuple[int, ...]:
        """The desired ranks that have not succeeded, in order."""
        return tuple(rank for rank in range(self.gang.size) if rank not in self.succeeded)

    @cached_property
    def unfinished(self) -> tuple[int, ...]:
        """The ranks of this world that run or must still run, in order. Others may join later."""
        return tuple(rank for rank in self.wanted if rank < self.size)

    @property
    def _grouped(self) -> frozenset[int]:
        """The ranks of the newest list that have not succeeded and whose task is a group. If one of
        these ranks is missing, the other ranks of its group cannot run.
        """
        groups = () if self.gang.has_gang_restart else self.gang.groups
        listed = (rank for rank in self.wanted if rank < self.listed_size)
        return frozenset(rank for rank in listed if any(rank in group for group in groups))

    @cached_property
    def ranks_to_recreate(self) -> frozenset[int]:
        """The ranks whose pods must be re-created, because these pods have a stale list and cannot
        restart in place.
        """
        # Without a list no program can have started, unless somebody has forged the annotations of
        # its pod.
        if self.state is ListState.NONE:
            return frozenset(
                rank for rank, pod in self.pods.items() if pod.copy.tampered and pod.has_started
            )
        listed = (rank for rank, pod in self.pods.items() if pod.has_list)
        if self.list_is_stale:
            replaced = self.renewing - self.restarts.possible
            return frozenset(r for r in listed if r in replaced or r >= self.gang.size)
        return frozenset(rank for rank in listed if rank >= min(self.size, self.gang.size))

    @cached_property
    def survivors(self) -> tuple[int, ...]:
        """The ranks that are running, or may be running, with the correct addresses of all peers
        that they connect to.
        """
        staying = (rank for rank in self.wanted if rank not in self.renewing)
        return tuple(rank for rank in staying if (pod := self.pods.get(rank)) and pod.has_list)

    @property
    def no_rank_runs(self) -> bool:
        """Whether no rank can be running with a correct list."""
        return not (self.list_is_active or self.survivors)

    @cached_property
    def to_delete(self) -> tuple[Pod, ...]:
        """The pods that are not part of a correct list and cannot become part of the next one."""
        return tuple(
            pod for rank, pod in sorted(self.pods.items()) if self._must_be_deleted(rank, pod)
        )

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """The ranks without any pod."""
        return tuple(rank for rank in self.wanted if rank not in self.pods)

    @cached_property
    def addressless(self) -> tuple[int, ...]:
        """The ranks that cannot join the next list yet, because they lack an address or an
        image.
        """
        doomed = {pod.rank for pod in self.to_delete}
        pods = ((rank, self.pods.get(rank)) for rank in self.wanted)
        usable = {r for r, p in pods if p and p.has_arrived and not p.deleting and r not in doomed}
        return tuple(rank for rank in self.wanted if rank not in usable)

    @cached_property
    def possible_size(self) -> int:
        """How many ranks the next list could have now: all ranks below the first one without an
        address.
        """
        return self.addressless[0] if self.addressless else self.gang.size

    def _must_be_deleted(self, rank: int, pod: Pod) -> bool:
        if pod.deleting:
            return False
        if rank in self.succeeded:
            return rank >= self.gang.size and not pod.finished
        # A pod whose success does not count must be deleted, because the next pod needs the same
        # name.
        over = pod.failed or pod.containers.succeeded
        # A foreign pod must be deleted, because the operator needs its name for the rank's own pod.
        # A pod whose node cannot mount the launcher's image is re-created with an init container.
        over = over or pod.made.foreign or bool(pod.unmountable)
        return over or rank in self.ranks_to_recreate or rank >= self.gang.size
