"""Reports what a job with a queue is waiting for, with Kueue's own messages."""

from dijob import names
from dijob.api.warnings import NO_QUEUE_MESSAGE
from dijob.core.decide import growth, queueing
from dijob.core.decide.context import Context
from dijob.core.facts import Fact
from dijob.core.members import format_count
from dijob.core.observed.queue_views import Workload
from dijob.core.render.scheduling import kueue
from dijob.core.report.queue_quota import describe_position
from dijob.core.report.shared_objects import not_created
from dijob.reasons import GangScheduled

NOT_ENABLED = (
    "the job has the engine Kueue, but this operator does not use Kueue, so no pod is created: set"
    " the chart value scheduling.kueue, or suspend the job and set spec.scheduling.engine: None"
)
# Parts of two messages: a request exceeds the whole quota of the queue, or only its free quota.
# Kueue reports one of them for each flavor, so both can occur.
TOO_LARGE, NOT_FREE = "> maximum capacity", "insufficient unused quota"


def queue_facts(ctx: Context) -> list[Fact]:
    """Return the condition about the job's queue."""
    if ctx.job.status.ended or ctx.job.metadata.deletion_timestamp:
        return []
    if ctx.job.spec.suspend:
        return [Fact(GangScheduled.Suspended, "the job is suspended, so it needs no quota")]
    return [_queue_fact(ctx)]


def hold_message(ctx: Context) -> str:
    """Return what the job is waiting for if Kueue holds it back; otherwise ""."""
    if ctx.job.spec.suspend or not (queueing.uses_queue(ctx) and queueing.is_held(ctx)):
        return ""
    return _queue_fact(ctx).message


def _queue_fact(ctx: Context) -> Fact:
    seen = ctx.observed.queue
    found = seen.workload
    if obstacle := _obstacle(ctx):
        return obstacle
    if found is None or not seen.known:
        text = f"the job is about to be queued in {kueue.queue_name(ctx.job)}"
        return Fact(GangScheduled.Queued, text)
    if found.runs:
        return _admission_fact(ctx, found)
    if not found.active:
        text = f"{_deactivated(found)}, or suspend and resume the job"
        return Fact(GangScheduled.Deactivated, text)
    if found.is_true("Evicted") and found.reserves:
        evicted = found.condition("Evicted")
        text = f"evicted by Kueue ({evicted.get('reason')}): {evicted.get('message')}"
        return Fact(GangScheduled.Evicted, text)
    return _waiting_fact(ctx, found)


def _obstacle(ctx: Context) -> Fact | None:
    """Return why the operator cannot queue the job; None if it can."""
    seen = ctx.observed.queue
    if not seen.enabled:
        return Fact(GangScheduled.NotServed, NOT_ENABLED)
    if not seen.served:
        return Fact(GangScheduled.NotServed, kueue.NOT_SERVED)
    if seen.unread:
        return Fact(GangScheduled.GroupRefused, seen.unread)
    if seen.workload is None and not kueue.queue_name(ctx.job):
        return Fact(GangScheduled.QueueMissing, f"spec.scheduling.engine {NO_QUEUE_MESSAGE}")
    key = queueing.workload_key(ctx)
    if seen.workload is None and (rejection := ctx.observed.rejections.get(key)):
        return Fact(GangScheduled.GroupRefused, not_created(key, rejection))
    reports = ("patch workload", "delete workload")
    if refused := next(
        (one for name, one in ctx.observed.rejections.items() if name.startswith(reports)), None
    ):
        return Fact(GangScheduled.GroupRefused, refused.message)
    return None


def _admission_fact(ctx: Context, found: Workload) -> Fact:
    """Return the condition for an admitted job, with the number of ranks that it may have."""
    seen, queue = ctx.observed.queue, found.queue
    if not seen.held_back:
        return Fact(GangScheduled.Admitted, f"admitted by the queue {queue}")
    size = format_count(ctx.world.gang.size, "rank")
    waits = "1 more is waiting" if seen.held_back == 1 else f"{seen.held_back} more are waiting"
    text = f"the queue {queue} has admitted {size}, and {waits}"
    return Fact(GangScheduled.AdmittedInPart, f"{text}: {_growth_message(ctx, found)}")


def _growth_message(ctx: Context, found: Workload) -> str:
    """Return why Kueue has not admitted the remaining ranks yet."""
    seen, larger = ctx.observed.queue, ctx.observed.queue.growth
    if larger is None:
        if obstacle := growth.find_obstacle(ctx, found):
            return f"{obstacle}: {growth.REMEDY}"
        if rejection := ctx.observed.rejections.get(growth.growth_key(ctx)):
            return rejection.message
        if seen.slices is None:
            return "it is not known yet whether Kueue can add ranks to a running job"
        return "the operator is about to request quota for them"
    if not larger.active:
        return f"{_deactivated(larger)}, or set spec.replicas to the number of running ranks"
    if larger.reserves:
        checks = larger.condition("Admitted").get("message") or "admission checks"
        return f"quota is reserved; {checks}"
    reason = larger.condition("QuotaReserved").get("message") or "not evaluated yet"
    return f"{position}: {reason}" if (position := describe_position(ctx.job, seen)) else reason


def _deactivated(found: Workload) -> str:
    """Return a message that the Workload is deactivated, with the command that activates it."""
    message = found.condition("Evicted").get("message") or "its spec.active is false"
    # Kubernetes has another kind with this name (scheduling.k8s.io).
    kind = f"{kueue.PLURAL}.{names.KUEUE_GROUP}"
    patch = '{"spec":{"active":true}}'
    return (
        f"the Workload {found.name} is deactivated ({message}): kubectl patch {kind}"
        f" {found.name} --type=merge -p '{patch}'"
    )


def _waiting_fact(ctx: Context, found: Workload) -> Fact:
    """Return why Kueue has not admitted the job yet."""
    seen, queue = ctx.observed.queue, found.queue
    if seen.absent:
        space = ctx.job.metadata.namespace
        text = (
            f"the LocalQueue {queue} does not exist in namespace {space} (kubectl get localqueues"
            f" -n {space}): create it, or correct the label kueue.x-k8s.io/queue-name"
        )
        return Fact(GangScheduled.QueueMissing, text)
    if seen.local and seen.local.inactive:
        text = f"the LocalQueue {queue} is not active: {seen.local.inactive}"
        return Fact(GangScheduled.QueueMissing, text)
    quota = found.condition("QuotaReserved")
    if found.reserves:
        waits = found.condition("Admitted").get("message") or "admission checks"
        return Fact(GangScheduled.Queued, f"queued in {queue}: quota is reserved; {waits}")
    position = describe_position(ctx.job, seen)
    why = ": ".join(filter(None, (position, quota.get("message") or "not evaluated yet")))
    text = f"queued in {queue}: {why}"
    if quota.get("reason") == "ExceedsMaxQuota" or (TOO_LARGE in text and NOT_FREE not in text):
        return Fact(GangScheduled.NeverFits, text)
    return Fact(GangScheduled.Queued, text)
