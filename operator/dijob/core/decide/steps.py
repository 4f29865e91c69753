"""Returns the actions for a job that is running or starting: the next step towards the desired
state.

An object whose creation was rejected, or that is deleted repeatedly, is created again only after a
back-off. The functions below return the length of this back-off; requeue.py uses them to set the
time of the next reconciliation.
"""

from collections.abc import Sequence
from itertools import takewhile

from dijob import names
from dijob.api.last_task import task_record
from dijob.core.actions import (
    Action,
    ChangePolicy,
    CreateInOrder,
    CreatePod,
    CreateShared,
    SetReplicas,
)
from dijob.core.decide import (
    address_writes,
    budgets,
    growth,
    program_starts,
    queueing,
    scheduling,
    stalls,
)
from dijob.core.decide.context import REDIS_KINDS, Context
from dijob.core.decide.deletion import delete_pods, force_delete_lost_pods, release_pod
from dijob.core.observed import creations
from dijob.core.observed.policies import spec_digest
from dijob.core.observed.views import RejectionCause
from dijob.core.render import policy, service
from dijob.core.render import redis as redis_objects

# At most this many pods are created one after the other per reconciliation. Each creation waits for
# the response to the one before it, so a larger batch would delay the job's next reconciliation.
IN_ORDER_AT_ONCE = 32
# The fractional parts of this number's multiples are evenly spread, however many multiples are
# taken.
GOLDEN_RATIO = 0.618034


def next_actions(ctx: Context) -> tuple[Action, ...]:
    """Return the next step towards running at the desired size."""
    return (
        *default_replicas(ctx),
        *program_starts.confirm_failures(ctx),
        *address_writes.publish_peer_list(ctx),
        *stalls.ask_stacks(ctx),
        *_policy_actions(ctx),
        *_scheduling_actions(ctx),
        *_queue_actions(ctx),
        *_budget_actions(ctx),
        *_create_and_delete_pods(ctx),
        *_shared_objects(ctx),
    )


def default_replicas(ctx: Context) -> tuple[Action, ...]:
    """Write spec.replicas, which the scale subresource reads, if the user left it out. In a job
    with tasks, spec.replicas is the size of the last task, and follows that task's own field and
    bounds (api/last_task.py).
    """
    # The number of desired ranks that Kueue has not admitted. `ctx.job` does not include these
    # ranks, but the spec in the cluster does.
    held = ctx.observed.queue.held_back
    spec, record = ctx.job.spec, task_record(ctx.job.spec)
    known = ctx.job.metadata.annotations.get(names.ANNOTATION_LAST_TASK, "")
    outdated = spec.replicas != spec.scale if spec.tasks else spec.replicas is None
    due = (outdated and not held) or (record and known != record)
    return (SetReplicas(spec.scale + held, record),) if due else ()


def _policy_actions(ctx: Context) -> tuple[Action, ...]:
    """Create the job's NetworkPolicy. Correct this policy, and the policy of the Redis server, if
    the job has changed or somebody has edited them. A policy that is no longer needed is changed to
    allow everything, because the operator has no permission to delete it.
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
    missing = policy_is_missing(ctx)
    create = missing and may_try(ctx, f"networkpolicy/{job.metadata.name}")
    return (*change, CreateShared(policy.isolation_manifests)) if create else change


def _scheduling_actions(ctx: Context) -> tuple[Action, ...]:
    may_create = scheduling.object_is_missing(ctx) and may_try(ctx, scheduling.object_key(ctx))
    return scheduling.object_actions(ctx, may_create)


def held_workload(ctx: Context) -> tuple[Action, ...]:
    """Create, release or delete the Workload of a job that is suspended, or that Kueue holds back.
    The suspension is stored first.
    """
    if not ctx.job.status.suspend_time:
        return ()
    missing = queueing.workload_is_missing(ctx)
    return queueing.held_actions(ctx, missing and may_try(ctx, queueing.workload_key(ctx)))


def _queue_actions(ctx: Context) -> tuple[Action, ...]:
    """Report a running job's state to its queue, and request quota for additional ranks."""
    key = growth.growth_key(ctx)
    may_create = growth.growth_is_missing(ctx) and may_try(ctx, key)
    grows = growth.growth_actions(ctx, may_create) if queueing.uses_queue(ctx) else ()
    return (*queueing.running_actions(ctx), *grows)


def _budget_actions(ctx: Context) -> tuple[Action, ...]:
    missing = budgets.missing_budgets(ctx)
    create = (one for one in missing if may_try(ctx, budgets.budget_key(one.name)))
    return (*create, *budgets.change_budgets(ctx))


def _create_and_delete_pods(ctx: Context) -> tuple[Action, ...]:
    """Create missing pods, and delete pods that cannot be part of the next peer list."""
    world, rendezvous = ctx.world, ctx.rendezvous
    create = () if pods_wait_for_shared(ctx) else _create_pods(ctx)
    if ctx.has_unstored_counts:
        # A failure that is not stored yet would be lost with its pod, so nothing is deleted before
        # the status is written.
        return create
    back = (release_pod(pod),) if (pod := rendezvous.pod_to_release) else ()
    force = force_delete_lost_pods(world.pods.values(), ctx.now)
    return (*delete_pods(world.to_delete), *back, *force, *create)


def _create_pods(ctx: Context) -> tuple[Action, ...]:
    rendezvous, member = ctx.rendezvous, ctx.world.gang.member
    group = queueing.admitted_pods(ctx) or scheduling.gang_of_pods(ctx)
    due = takewhile(lambda rank: wait_to_create(ctx, rank) <= 0, rendezvous.ranks_to_add)
    if ranks := tuple(due)[:IN_ORDER_AT_ONCE]:
        return (CreateInOrder(tuple(map(member, ranks)), group),)
    free = [rank for rank in rendezvous.needed if wait_to_create(ctx, rank) <= 0]
    return tuple(CreatePod(member(rank), group) for rank in creation_order(ctx, free))


def _shared_objects(ctx: Context) -> tuple[Action, ...]:
    """Create the objects that the ranks share: the headless Service and the Redis server."""
    due = service_is_missing(ctx) and may_try(ctx, f"service/{ctx.world.gang.job}")
    return (*((CreateShared(service.headless_manifests),) if due else ()), *_redis_actions(ctx))


def _redis_actions(ctx: Context) -> tuple[Action, ...]:
    name, seen = ctx.world.gang.server, ctx.observed
    pod = seen.unranked_pod(name)
    # NetworkPolicies are watched only if each job has one. Otherwise, the operator cannot notice
    # that the Redis server's policy is missing.
    kinds = ("service", "networkpolicy") if seen.isolation.wanted else ("service",)
    objects = {f"{kind}/{name}" for kind in kinds}
    if not name or (pod and objects <= seen.existing and not pod.finished and not pod.deleting):
        return ()
    if pod and (pod.finished or pod.deleting):
        return (*delete_pods([pod]), *force_delete_lost_pods([pod], ctx.now))
    may = all(may_try(ctx, f"{kind}/{name}") for kind in REDIS_KINDS)
    if not may or wait_for_pod(ctx, name) > 0 or queueing.pods_wait(ctx):
        return ()
    return (CreateShared(redis_objects.server_manifests, queueing.admitted_pods(ctx)),)


def service_is_missing(ctx: Context) -> bool:
    """Whether the job needs its headless Service and does not have it."""
    missing = f"service/{ctx.world.gang.job}" not in ctx.observed.existing
    return ctx.job.wants_service and missing


def policy_is_missing(ctx: Context) -> bool:
    """Whether the job needs a NetworkPolicy and does not have it."""
    isolation = ctx.observed.isolation
    return isolation.wanted and ctx.world.gang.job not in isolation.policies


def pods_wait_for_shared(ctx: Context) -> bool:
    """Whether pods must wait for a shared object.

    All pods wait for the NetworkPolicy, because a pod without it would be open to everyone. The
    first pods also wait for the Service. An init container, a probe or the program may look up the
    name of a peer as soon as it starts, and may not try again if this fails. A job that already has
    pods recovers without its Service, because most programs use addresses. All pods wait for the
    object that the job's engine needs, such as a PodGroup (scheduling.py), and for Kueue's
    placement of the pods (queueing.py).
    """
    first = service_is_missing(ctx) and not ctx.observed.pods
    engine = scheduling.pods_wait(ctx) or queueing.pods_wait(ctx)
    return policy_is_missing(ctx) or first or engine


def may_try(ctx: Context, key: str) -> bool:
    """Whether the object ("service/x") may be created now; see wait_to_make."""
    return wait_to_make(ctx, key) <= 0


def wait_to_make(ctx: Context, key: str) -> float:
    """Return the seconds until the object ("pod/x-0") may be created; 0 or less: now. An object
    waits if its creation was rejected, or if it has been deleted repeatedly.
    """
    rejection = ctx.observed.rejections.get(key)
    asked_again = (rejection.retry_at - ctx.now).total_seconds() if rejection else 0.0
    lately = ctx.observed.creations.get(key.removeprefix("pod/"))
    return max(asked_again, creations.seconds_until_creation(lately, ctx.now))


def wait_to_create(ctx: Context, rank: int) -> float:
    """Return the seconds until the rank's pod may be created; 0 or less: now."""
    return wait_for_pod(ctx, ctx.world.gang.member(rank).name)


def wait_for_pod(ctx: Context, name: str) -> float:
    """Return the seconds until the pod with this name may be created; 0 or less: now."""
    return wait_to_make(ctx, f"pod/{name}")


def creation_order(ctx: Context, ranks: Sequence[int]) -> list[int]:
    """Return the order in which pods are created.

    If the first creation is rejected, the others are not tried (controller/write/batch.py). While
    old pods with the same names are terminating, each attempt starts with a different rank. So one
    old pod that never terminates does not block all ranks. The first rank is followed by the ranks
    that are nearest to it.
    """
    rejections = (
        ctx.observed.rejections.get(f"pod/{ctx.world.gang.member(rank).name}") for rank in ranks
    )
    tried = max(
        (no.attempts for no in rejections if no and no.why is RejectionCause.TERMINATING), default=0
    )
    first = int(len(ranks) * (tried * GOLDEN_RATIO % 1.0))
    return [
        ranks[index] for index in sorted(range(len(ranks)), key=lambda index: abs(index - first))
    ]
