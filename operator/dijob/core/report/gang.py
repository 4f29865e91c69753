"""Reports whether the job's engine has given nodes to the ranks that must be scheduled together."""

from dijob.core.decide import scheduling
from dijob.core.decide.context import Context
from dijob.core.facts import Fact, find_condition
from dijob.core.observed import diagnose
from dijob.core.observed.scheduling import waits_for_others
from dijob.core.observed.views import ApiRejection, RejectionCause
from dijob.core.report.queueing import queue_facts
from dijob.core.report.shared_objects import not_created
from dijob.names import Engine
from dijob.reasons import GangScheduled


def gang_facts(ctx: Context) -> list[Fact]:
    """Return the condition about the job's engine; [] if the job has none."""
    over = ctx.job.status.ended or ctx.job.metadata.deletion_timestamp
    if not over and (field := scheduling.unsupported_field(ctx)):
        return [Fact(GangScheduled.NotSupported, f"no pod is created, because {field}")]
    if ctx.observed.scheduling.engine is Engine.NONE:
        known = find_condition(ctx.job.status, GangScheduled)
        return [Fact(GangScheduled.NotWanted)] if known else []
    if ctx.observed.scheduling.engine is Engine.KUEUE:
        return queue_facts(ctx)
    return [] if over else [_object_fact(ctx) or _place_fact(ctx)]


def _object_fact(ctx: Context) -> Fact | None:
    """Return why pods wait for the engine's object; None if they do not."""
    seen, row, key = ctx.observed.scheduling, scheduling.engine_row(ctx), scheduling.object_key(ctx)
    if not seen.served:
        group = row.api.partition("/")[0]
        message = (
            f"the engine {seen.engine} needs {row.kind} of {row.api}, which the cluster does not"
            f" serve (to check: kubectl api-resources --api-group={group}), so no pod is created:"
            f" {row.switch}, or suspend the job and set spec.scheduling.engine: None"
        )
        return Fact(GangScheduled.NotServed, message)
    for verb in ("get ", ""):
        if rejection := ctx.observed.rejections.get(verb + key):
            return Fact(_reason(rejection), not_created(key, rejection))
    if ignored := scheduling.dropped_field(ctx):
        return Fact(
            GangScheduled.NotSupported,
            f"the cluster ignores {ignored}, so no pod is created: suspend the job; remove the"
            " field, or make the cluster support it; then resume the job",
        )
    return None


def _reason(rejection: ApiRejection) -> GangScheduled:
    match rejection.why:
        case RejectionCause.TAKEN:
            return GangScheduled.GroupNameTaken
        case RejectionCause.TERMINATING:  # the object of a deleted job with the same name
            return GangScheduled.Waiting
        case _:
            return GangScheduled.GroupRefused


def _place_fact(ctx: Context) -> Fact:
    """Return whether enough ranks have nodes."""
    world, count = ctx.world, scheduling.needed_count(ctx)
    if ctx.job.spec.suspend or ctx.next_status.suspend_time:
        return Fact(GangScheduled.Suspended, "the job is suspended, so no rank needs a node")
    pods = [pod for rank in world.wanted if (pod := world.pods.get(rank))]
    ranks = "1 rank" if count == 1 else f"{count} ranks"
    if sum(pod.scheduled for pod in pods) >= count:
        return Fact(GangScheduled.Placed, f"at least {ranks} have nodes")
    seeking = [pod for pod in pods if pod.seeks_node]
    if not seeking:
        return Fact(
            GangScheduled.Waiting,
            f"the scheduler places either {ranks} at the same time or no rank at all",
        )
    # The scheduler gives the real reason only for the first pod for which it found no node.
    specific = [pod for pod in seeking if not waits_for_others(pod.complaint)] or seeking
    why = diagnose.without_address(
        world.gang, [pod.rank for pod in specific], ctx.observed, ctx.now
    )
    return Fact(
        GangScheduled.NoRoom,
        f"{ranks} must get nodes at the same time, and the cluster has no room for them: {why}",
    )
