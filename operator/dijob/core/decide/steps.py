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


def give_back(ctx: Pass, given: GivenBack) -> tuple[Action, ...]:
    """Delete what holds room, once the status says how the ended pods ended."""
    return () if ctx.has_unstored_counts else deletions(capacity.to_give_back(ctx.world, given))


def advance(ctx: Pass) -> tuple[Action, ...]:
    """The next step towards running, or towards another size."""
    return (
        *default_replicas(ctx),
        *program_starts.confirmations(ctx),
        *address_writes.actions(ctx),
        *_policy(ctx),
        *_create_and_delete_pods(ctx),
        *_shared_objects(ctx),
    )


def default_replicas(ctx: Pass) -> tuple[Action, ...]:
    """Tasks have replicas of their own."""
    spec = ctx.job.spec
    return (SetReplicas(spec.desired),) if spec.replicas is None and not spec.tasks else ()


def _policy(ctx: Pass) -> tuple[Action, ...]:
    """The job's policy comes before the pods. It and that of the Redis server change while they
    run, and are restored if somebody edits them; also one that is not wanted any more, which there
    is no right to delete.
    """
    job, there = ctx.job, ctx.observed.isolation.policies
    wanted = {job.metadata.name: policy.spec(job)}
    if job.server:
        wanted[job.server] = redis_server.policy_spec(job)
    change = tuple(
        ChangePolicy(name, found.uid, spec)
        for name, spec in wanted.items()
        if (found := there.get(name)) and found.digest != digest(spec)
    )
    missing = requeue.policy_is_missing(ctx)
    create = missing and requeue.may_try(ctx, f"networkpolicy/{job.metadata.name}")
    return (*change, CreateShared(policy.manifests)) if create else change


def _create_and_delete_pods(ctx: Pass) -> tuple[Action, ...]:
    """Pods that are missing come, pods that belong to no list go."""
    world, gathering = ctx.world, ctx.gathering
    create = () if requeue.pods_wait_for_shared(ctx) else _creations(ctx)
    if ctx.has_unstored_counts:
        # A failure that is not in the stored status yet would be lost with its pod: that write
        # comes first.
        return create
    back = (release(pod),) if (pod := gathering.pod_to_release) else ()
    force = removals(lost_nodes.abandoned(world.pods.values(), ctx.now))
    return (*deletions(world.to_delete), *back, *force, *create)


def _creations(ctx: Pass) -> tuple[Action, ...]:
    gathering, member = ctx.gathering, ctx.world.gang.member
    due = takewhile(lambda rank: requeue.wait_to_create(ctx, rank) <= 0, gathering.ranks_to_add)
    if ranks := tuple(due)[:IN_ORDER_AT_ONCE]:
        return (CreateInOrder(tuple(map(member, ranks))),)
    free = [rank for rank in gathering.needed if requeue.wait_to_create(ctx, rank) <= 0]
    return tuple(CreatePod(member(rank)) for rank in requeue.creation_order(ctx, free))


def _shared_objects(ctx: Pass) -> tuple[Action, ...]:
    """What the ranks share: their names, and their Redis server."""
    due = requeue.service_is_missing(ctx) and requeue.may_try(ctx, f"service/{ctx.world.gang.job}")
    return (*((CreateShared(service.manifests),) if due else ()), *_broker(ctx))


def _broker(ctx: Pass) -> tuple[Action, ...]:
    name, seen = ctx.world.gang.server, ctx.observed
    pod = seen.unranked_pod(name)
    kinds = ("service", "networkpolicy") if seen.isolation.wanted else ("service",)
    objects = {f"{kind}/{name}" for kind in kinds}
    if not name or (pod and objects <= seen.existing and not pod.finished and not pod.deleting):
        return ()
    if pod and (pod.finished or pod.deleting):
        return (*deletions([pod]), *removals(lost_nodes.abandoned([pod], ctx.now)))
    may = all(requeue.may_try(ctx, f"{kind}/{name}") for kind in redis.KINDS)
    return (
        (CreateShared(redis_server.manifests),)
        if may and requeue.wait_for_pod(ctx, name) <= 0
        else ()
    )
