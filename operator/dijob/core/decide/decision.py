"""Decides what a job needs now: the first rule that applies gives the actions, the new status, and
when to reconcile again.

A rule either writes a record into the status or acts. The reason for an action is written first,
and the next reconciliation acts on it. So a crash of the operator cannot lose the reason for an
action, or cause a failure to be counted twice.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from dijob.api.status import Status, format_time
from dijob.core.actions import Action
from dijob.core.decide import (
    address_writes,
    budgets,
    completion,
    program_starts,
    queueing,
    re_rendezvous,
    requeue,
    stalls,
    steps,
    suspension,
)
from dijob.core.decide.completion import Verdict
from dijob.core.decide.context import Context
from dijob.core.decide.deletion import delete_pods
from dijob.core.membership import capacity


class ReportKind(Enum):
    """Which conditions (core/report) explain a decision that does not end the job."""

    PROGRESS = auto()
    DELETION = auto()
    SUSPENSION = auto()
    # Only conditions that are not about the start or end of the job are written.
    OPTIONAL = auto()


@dataclass(frozen=True)
class JobDecision:
    """What one reconciliation does.

    `ctx.next_status` is the status to write, still with the old conditions. `actions` is None if
    this reconciliation only writes the status, and the next one acts on it. `report` is the verdict
    if the job is ending.
    """

    ctx: Context
    report: ReportKind | Verdict
    when: requeue.When
    actions: tuple[Action, ...] | None = None

    @property
    def deletes_after_counts(self) -> bool:
        """Whether this decision deletes pods only after their failures and successes are stored in
        the status.
        """
        return self.when in (requeue.while_suspended, requeue.waiting_for_room)

    @property
    def status(self) -> Status:
        """The status to write, without new conditions."""
        ctx, ends = self.ctx, isinstance(self.report, Verdict)
        update = {"completion_time": format_time(ctx.now), "suspend_time": None} if ends else {}
        return ctx.next_status.model_copy(update=update)


def decide(ctx: Context) -> JobDecision:
    """Return what this reconciliation does, according to the first rule that applies."""
    if not ctx.job.status.ended and (verdict := completion.find_verdict(ctx)):
        return JobDecision(ctx, verdict, requeue.at_once)
    if ctx.job.metadata.deletion_timestamp:
        force = completion.clean_up_deleted(ctx)
        return JobDecision(ctx, ReportKind.DELETION, requeue.while_terminating, force)
    if ctx.job.status.ended:
        return _decide_clean_up(ctx)
    suspended = suspension.is_suspended(ctx)
    # The loss and the counted failure are stored in the same status write. The next reconciliation
    # acts on this status. So a failure is never counted twice, and the restart that a counted
    # failure requires always happens.
    if not suspended and (loss := re_rendezvous.failure_loss(ctx)):
        return _write_first(re_rendezvous.record_loss(ctx, loss))
    # This rule comes after the rules for the end of a job, so a paused job can still be reported as
    # succeeded or failed.
    if ctx.job.paused:
        return JobDecision(ctx, ReportKind.PROGRESS, requeue.at_next_resync, ())
    if suspended:
        return _decide_suspension(ctx)
    # Pods created from a different template would not match the running ones. A program that failed
    # may restart in its pod, because that pod keeps its template. Budgets do not depend on the
    # template, and a budget that counts too many ranks would block drains.
    if ctx.template_changed:
        due = (*program_starts.confirm_failures(ctx), *budgets.change_budgets(ctx))
        return JobDecision(ctx, ReportKind.PROGRESS, requeue.while_watching, due)
    return _decide_start_or_run(ctx)


def _decide_start_or_run(ctx: Context) -> JobDecision:
    """Decide what to do with a job that is starting or running. Its template has not changed."""
    if loss := ctx.loss or re_rendezvous.size_change_loss(ctx):
        return _write_first(re_rendezvous.record_loss(ctx, loss))
    if loss := stalls.stall_loss(ctx):
        return _write_first(stalls.record_restart(re_rendezvous.record_loss(ctx, loss), loss))
    if release := _decide_release(ctx):
        return release
    if due := address_writes.next_list(ctx):
        return _write_first(address_writes.with_new_revision(ctx, due))
    return JobDecision(ctx, ReportKind.PROGRESS, requeue.while_advancing, steps.next_actions(ctx))


def _decide_release(ctx: Context) -> JobDecision | None:
    """Return the decision for a job that releases its capacity because it cannot start, or that
    waits after such a release. Return None for all other jobs.
    """
    timeout = ctx.job.spec.schedule_timeout_seconds
    if record := capacity.due_record(ctx.rendezvous, ctx.next_status, timeout):
        # The record is stored before the pods are deleted. Otherwise, if the operator is killed in
        # between, the next operator would re-create the pods at once.
        status = ctx.next_status.model_copy(update={"given_back": record})
        return _write_first(replace(ctx, next_status=status))
    pods = capacity.pods_to_release(ctx.rendezvous, ctx.next_status)
    if pods is None:
        return None
    # The pods are deleted only after all counts have been stored in the status.
    due = () if ctx.has_unstored_counts else delete_pods(pods)
    when = requeue.waiting_for_room
    return JobDecision(ctx, ReportKind.PROGRESS, when, due)


def _decide_clean_up(ctx: Context) -> JobDecision:
    """Decide what to do with a job that has ended."""
    if ctx.job.paused:
        return JobDecision(ctx, ReportKind.OPTIONAL, requeue.at_next_resync)
    actions = completion.clean_up(ctx) or queueing.end_actions(ctx)
    return JobDecision(ctx, ReportKind.OPTIONAL, requeue.after_end, actions)


def _decide_suspension(ctx: Context) -> JobDecision:
    """Decide what to do with a job that is suspended, or that was suspended and is waiting until
    its old pods are gone.
    """
    resumes = suspension.can_resume(ctx)
    ctx = replace(ctx, next_status=suspension.next_status(ctx))
    if resumes:
        return JobDecision(ctx, ReportKind.OPTIONAL, requeue.at_once)
    actions = (
        *steps.default_replicas(ctx),
        *suspension.delete_all_pods(ctx),
        *steps.held_workload(ctx),
    )
    return JobDecision(ctx, ReportKind.SUSPENSION, requeue.while_suspended, actions)


def _write_first(ctx: Context) -> JobDecision:
    """Write the status of this context. The next reconciliation acts on it."""
    return JobDecision(ctx, ReportKind.PROGRESS, requeue.at_once)
