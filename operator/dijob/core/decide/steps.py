"""Returns the actions of a job that runs or starts: the next step towards the desired state."""

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
from dijob.core.decide import address_writes, program_starts, redis_server, requeue
from dijob.core.decide.context import Context
from dijob.core.decide.deletion import delete_pods, force_delete_lost_pods, release_pod
from dijob.core.membership import capacity
from dijob.core.observed.policies import spec_digest
from dijob.core.render import policy, service
from dijob.core.render import redis as redis_objects

# How many of the pods that are created one after the other are created per reconciliation. Each
# creation waits for the response to the one before it, so a larger batch would delay the job's
# next reconciliation.
IN_ORDER_AT_ONCE = 32


def give_back(ctx: Context, given: GivenBack) -> tuple[Action, ...]:
    """Delete the pods that hold capacity, once the status has counted how the others ended."""
    return () if ctx.has_unstored_counts else delete_pods(capacity.to_give_back(ctx.world, given))


def next_actions(ctx: Context) -> tuple[Action, ...]:
    """Return the next step towards running in the desired size."""
    return (
        *default_replicas(ctx),
        *program_starts.confirm_failures(ctx),
        *address_writes.publish_peer_list(ctx),
        *_policy_actions(ctx),
        *_create_and_delete_pods(ctx),
        *_shared_objects(ctx),
    )


def default_replicas(ctx: Context) -> tuple[Action, ...]:
    """Write spec.replicas if the user left it out. A job with tasks has replicas per task."""
    spec = ctx.job.spec
    return (SetReplicas(spec.desired),) if spec.replicas is None and not spec.tasks else ()


def _policy_actions(ctx: Context) -> tuple[Action, ...]:
    """Create the job's NetworkPolicy, and correct it and that of the Redis server if the job has
    changed or somebody has edited them. A policy that is not needed any more is changed to allow
    everything, because the operator has no right to delete it.
    """
    job, there = ctx.job, ctx.observed.isolation.policies
    wanted = {job.metadata.name: policy.ingress_spec(job)}
    if job.server:
        wanted[job.server] = redis_objects.policy_spec(job)
    change = tuple(
        ChangePolicy(name, found.uid, spec)
        for name, spec in wanted.items()
        if (found := there.get(name)) and found.digest != spec_digest(spec)
    )
    missing = requeue.policy_is_missing(ctx)
    create = missing and requeue.may_try(ctx, f"networkpolicy/{job.metadata.name}")
    return (*change, CreateShared(policy.isolation_manifests)) if create else change


def _create_and_delete_pods(ctx: Context) -> tuple[Action, ...]:
    """Create missing pods, and delete those that cannot be part of the next peer list."""
    world, rendezvous = ctx.world, ctx.rendezvous
    create = () if requeue.pods_wait_for_shared(ctx) else _create_pods(ctx)
    if ctx.has_unstored_counts:
        # A failure that is not stored yet would be lost with its pod, so nothing is deleted before
        # that write.
        return create
    back = (release_pod(pod),) if (pod := rendezvous.pod_to_release) else ()
    force = force_delete_lost_pods(world.pods.values(), ctx.now)
    return (*delete_pods(world.to_delete), *back, *force, *create)


def _create_pods(ctx: Context) -> tuple[Action, ...]:
    rendezvous, member = ctx.rendezvous, ctx.world.gang.member
    due = takewhile(lambda rank: requeue.wait_to_create(ctx, rank) <= 0, rendezvous.ranks_to_add)
    if ranks := tuple(due)[:IN_ORDER_AT_ONCE]:
        return (CreateInOrder(tuple(map(member, ranks))),)
    free = [rank for rank in rendezvous.needed if requeue.wait_to_create(ctx, rank) <= 0]
    return tuple(CreatePod(member(rank)) for rank in requeue.creation_order(ctx, free))


def _shared_objects(ctx: Context) -> tuple[Action, ...]:
    """Create the objects that the ranks share: the headless Service and the Redis server."""
    due = requeue.service_is_missing(ctx) and requeue.may_try(ctx, f"service/{ctx.world.gang.job}")
    return (*((CreateShared(service.headless_manifests),) if due else ()), *_redis_actions(ctx))


def _redis_actions(ctx: Context) -> tuple[Action, ...]:
    name, seen = ctx.world.gang.server, ctx.observed
    pod = seen.unranked_pod(name)
    # NetworkPolicies are watched only if each job has one. Otherwise a missing policy of the Redis
    # server cannot be noticed.
    kinds = ("service", "networkpolicy") if seen.isolation.wanted else ("service",)
    objects = {f"{kind}/{name}" for kind in kinds}
    if not name or (pod and objects <= seen.existing and not pod.finished and not pod.deleting):
        return ()
    if pod and (pod.finished or pod.deleting):
        return (*delete_pods([pod]), *force_delete_lost_pods([pod], ctx.now))
    may = all(requeue.may_try(ctx, f"{kind}/{name}") for kind in redis_server.KINDS)
    return (
        (CreateShared(redis_objects.server_manifests),)
        if may and requeue.wait_for_pod(ctx, name) <= 0
        else ()
    )
