"""The actions of a pass: the next step towards running, or towards another size."""

from itertools import takewhile

from dijob.api.status import GivenBack
from dijob.core.actions import (
    Action,
    ChangePolicy,
    CreateInOrder,
    CreatePod,
    CreateShared,
    SetReplicas,
)
from dijob.core.decide import address_writes, program_starts, requeue
from dijob.core.decide.deletion import deletions, release, removals
from dijob.core.membership import capacity
from dijob.core.membership.context import Pass
from dijob.core.observed import lost_nodes
from dijob.core.observed.policies import digest
from dijob.core.render import policy, service
from dijob.core.render import redis as redis_server
from dijob.core.report import redis

# Of the pods that are created one after the other, so many in one pass.
IN_ORDER_AT_ONCE = 32


def give_back(this: Pass, given: GivenBack) -> tuple[Action, ...]:
    """Delete what holds room, once the status says how the ended pods ended."""
    return () if this.has_unstored_counts else deletions(capacity.to_give_back(this.world, given))


def advance(this: Pass) -> tuple[Action, ...]:
    """The next step towards running, or towards another size."""
    return (
        *default_replicas(this),
        *program_starts.confirmations(this),
        *address_writes.actions(this),
        *_policy(this),
        *_create_and_delete_pods(this),
        *_shared_objects(this),
    )


def default_replicas(this: Pass) -> tuple[Action, ...]:
    """Tasks have replicas of their own."""
    spec = this.job.spec
    return (SetReplicas(spec.desired),) if spec.replicas is None and not spec.tasks else ()


def _policy(this: Pass) -> tuple[Action, ...]:
    """The job's policy comes before the pods. It and that of the Redis server change while they
    run, and are restored if somebody edits them; also one that is not wanted any more, which there
    is no right to delete.
    """
    job, there = this.job, this.observed.isolation.policies
    wanted = {job.metadata.name: policy.spec(job)}
    if job.server:
        wanted[job.server] = redis_server.policy_spec(job)
    change = tuple(
        ChangePolicy(name, found.uid, spec)
        for name, spec in wanted.items()
        if (found := there.get(name)) and found.digest != digest(spec)
    )
    missing = requeue.policy_is_missing(this)
    create = missing and requeue.may_try(this, f"networkpolicy/{job.metadata.name}")
    return (*change, CreateShared(policy.manifests)) if create else change


def _create_and_delete_pods(this: Pass) -> tuple[Action, ...]:
    """Pods that are missing come, pods that belong to no list go."""
    world, gathering = this.world, this.gathering
    create = () if requeue.pods_wait_for_shared(this) else _creations(this)
    if this.has_unstored_counts:
        # A failure that is not in the stored status yet would be lost with its pod: that write
        # comes first.
        return create
    back = (release(pod),) if (pod := gathering.pod_to_release) else ()
    force = removals(lost_nodes.abandoned(world.pods.values(), this.now))
    return (*deletions(world.to_delete), *back, *force, *create)


def _creations(this: Pass) -> tuple[Action, ...]:
    gathering, member = this.gathering, this.world.gang.member
    due = takewhile(lambda rank: requeue.wait_to_create(this, rank) <= 0, gathering.ranks_to_add)
    if ranks := tuple(due)[:IN_ORDER_AT_ONCE]:
        return (CreateInOrder(tuple(map(member, ranks))),)
    free = [rank for rank in gathering.needed if requeue.wait_to_create(this, rank) <= 0]
    return tuple(CreatePod(member(rank)) for rank in requeue.creation_order(this, free))


def _shared_objects(this: Pass) -> tuple[Action, ...]:
    """What the ranks share: their names, and their Redis server."""
    due = requeue.service_is_missing(this) and requeue.may_try(
        this, f"service/{this.world.gang.job}"
    )
    return (*((CreateShared(service.manifests),) if due else ()), *_broker(this))


def _broker(this: Pass) -> tuple[Action, ...]:
    name, seen = this.world.gang.server, this.observed
    pod = seen.unranked_pod(name)
    kinds = ("service", "networkpolicy") if seen.isolation.wanted else ("service",)
    objects = {f"{kind}/{name}" for kind in kinds}
    if not name or (pod and objects <= seen.existing and not pod.finished and not pod.deleting):
        return ()
    if pod and (pod.finished or pod.deleting):
        return (*deletions([pod]), *removals(lost_nodes.abandoned([pod], this.now)))
    may = all(requeue.may_try(this, f"{kind}/{name}") for kind in redis.KINDS)
    return (
        (CreateShared(redis_server.manifests),)
        if may and requeue.wait_for_pod(this, name) <= 0
        else ()
    )
