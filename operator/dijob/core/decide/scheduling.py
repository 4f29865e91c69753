"""Decides when the engine's object for a job (render/scheduling) is created, resized and deleted,
and whether pods must wait for it.

If the engine is None, nothing here has an effect.
"""

from dijob.api.checks import unsupported_fields
from dijob.core.actions import (
    Action,
    ChangeScheduling,
    CreateScheduling,
    DeleteScheduling,
    EngineGang,
)
from dijob.core.decide.context import Context
from dijob.core.render.scheduling import ENGINES, EngineRow, object_name
from dijob.names import Engine


def engine_row(ctx: Context) -> EngineRow:
    """Return the job's engine."""
    return ENGINES[ctx.observed.scheduling.engine]


def object_key(ctx: Context) -> str:
    """Return the key of the engine's object ("podgroup.scheduling.k8s.io/x"), as used for
    rejections.
    """
    return engine_row(ctx).key(object_name(ctx.job))


def gang_of_pods(ctx: Context) -> EngineGang | None:
    """Return the gang of new pods; None if the job has no engine."""
    engine = ctx.observed.scheduling.engine
    if engine is Engine.NONE:
        return None
    return EngineGang(engine, object_name(ctx.job), needed_count(ctx))


def needed_count(ctx: Context) -> int:
    """Return how many ranks must have nodes at the same time: minAvailable, but at most the number
    of ranks that must still run. While the job runs, only ranks of its peer list are counted,
    because the job does not wait for ranks that have not joined.
    """
    world, gang = ctx.world, ctx.world.gang
    size = min(world.size, gang.size) if world.list_is_active else gang.size
    return max(1, min(ctx.job.spec.gang_minimum, sum(rank < size for rank in world.wanted)))


def object_count(ctx: Context) -> int:
    """Return the number of pods that the engine's object must specify so that needed_count ranks
    get nodes at the same time. Some engines also count pods that have succeeded.
    """
    count = needed_count(ctx)
    if not engine_row(ctx).counts_succeeded:
        return count
    engine = ctx.observed.scheduling.engine
    done = (
        pod for pod in ctx.observed.pods.values() if pod.phase == "Succeeded" and not pod.deleting
    )
    return count + sum(pod.made.engine == engine for pod in done)


def unsupported_field(ctx: Context) -> str:
    """Return the path of a field of the job that the job's engine ignores, followed by advice; ""
    if there is no such field. A job that sets such a field and chooses its engine itself is
    Invalid. If the engine is the operator's default, the job's pods wait instead. For example, a
    job that sets a queue must not run outside that queue.
    """
    found = next(unsupported_fields(ctx.job, ctx.observed.scheduling.engine), None)
    return f"{found.field} {found.message}" if found else ""


def dropped_field(ctx: Context) -> str:
    """Return the field of the job that the cluster does not support; "" if there is none."""
    found = ctx.observed.scheduling.found
    return engine_row(ctx).dropped(ctx.job, found.spec) if found else ""


def object_is_missing(ctx: Context) -> bool:
    """Whether the engine's object does not exist and can be created. It cannot be created if the
    cluster does not serve its API, or if the job sets a field that the engine ignores.
    """
    seen = ctx.observed.scheduling
    absent = seen.served and seen.known and seen.found is None
    return bool(engine_row(ctx).kind) and absent and not unsupported_field(ctx)


def pods_wait(ctx: Context) -> bool:
    """Whether pods must wait for the engine's object. If the API server does not serve the API of
    the object, it drops the pod's field that refers to the object. The pods would then be scheduled
    one by one.
    """
    if unsupported_field(ctx):
        return True
    if not engine_row(ctx).kind:
        return False
    found = ctx.observed.scheduling.found
    if found is None or dropped_field(ctx):
        return True
    # An object that is being deleted exists until its last pod has ended.
    alive = any(not pod.finished for pod in ctx.world.pods.values())
    return (found.deleting and not alive) or _resize_is_due(ctx)


def object_actions(ctx: Context, may_create: bool) -> tuple[Action, ...]:
    """Create the engine's object, or resize it. `may_create`: the back-off of its creation is
    over.
    """
    seen, name = ctx.observed.scheduling, object_name(ctx.job)
    if object_is_missing(ctx):
        new = CreateScheduling(seen.engine, name, object_count(ctx))
        return (new,) if may_create else ()
    if seen.found and _resize_is_due(ctx):
        return (ChangeScheduling(seen.engine, name, seen.found.uid, object_count(ctx)),)
    return ()


def delete_object(ctx: Context) -> tuple[Action, ...]:
    """Delete the engine's object once a suspended job has no pods left."""
    seen = ctx.observed.scheduling
    if seen.found is None or seen.found.deleting or ctx.observed.pods:
        return ()
    return (DeleteScheduling(seen.engine, seen.found.name, seen.found.uid),)


def is_released(ctx: Context) -> bool:
    """Whether a suspended job no longer has an object of its engine."""
    seen = ctx.observed.scheduling
    if not (engine_row(ctx).kind and seen.served):
        return True
    return seen.known and (seen.found is None or seen.found.deleting)


def _resize_is_due(ctx: Context) -> bool:
    """Whether the object must be resized before the next pod is created or placed.

    A smaller number is written only if a rank lacks a pod or a node. Otherwise, each rank that
    succeeds would cause a write. A larger number is written only if no rank has a node, because a
    running job does not wait for ranks that join it.
    """
    found = ctx.observed.scheduling.found
    if found is None or found.deleting:
        return False
    there, wanted = engine_row(ctx).count(found.spec), object_count(ctx)
    pods = [pod for rank in ctx.world.wanted if (pod := ctx.world.pods.get(rank))]
    if wanted > there:
        return not any(pod.scheduled for pod in pods)
    return wanted < there and (bool(ctx.world.missing) or not all(pod.scheduled for pod in pods))
