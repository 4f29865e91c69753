"""Plans one reconciliation: make_plan(job, observed, now) returns the actions and the new status.

Planning has two halves, build_context and plan_from: make_plan returns plan_from(build_context(job,
observed, now)). The controller calls the two functions separately. Between the calls, it can serve
other jobs, which matters when it plans a job with 1,500 ranks.

The plan compares the job with the current state and does not depend on earlier plans. Facts that
must survive a crash of the operator are written to the status before the first action that depends
on them. So the operator can be killed between any two API calls.

The rules, in the order in which they apply to a job:
1. Missing pods are created. The launcher or the gate in each pod waits for the peer list.
2. When every rank has an address, the next revision of the peer list and its digest are written to
   the status. Then each pod gets the list, and the programs start. The ranks below minReplicas are
   required. The others have a join window (gatherSeconds), and may join later (rendezvous.py).
3. A lost rank makes the list stale for itself and for the ranks that connect to it (losses.py). The
   loss is written to the status first. Then the lost pod is re-created. The ranks that connect to
   it restart in their pods if possible (restart.py); otherwise, their pods are re-created, too. All
   other ranks keep running. Once all ranks have addresses, rule 2 applies again. Failures and
   successes are stored before the pods that show them are deleted.
4. The job succeeds (completion.py) when all ranks, or those that successPolicy names, have
   succeeded. It fails when there are more failures than backoffLimit allows, when the failure
   policy makes a failure fatal, or when a deadline has passed. After the job has ended, its pods
   are cleaned up.
5. A suspended job has no pods (suspension.py). After it is resumed, rule 1 applies again.
6. A job that is being deleted is only observed (completion.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dijob.api.model import DIJob
from dijob.api.status import Status
from dijob.core.actions import Action, Event
from dijob.core.decide import changes, completion, program_starts, requeue
from dijob.core.decide.completion import Verdict
from dijob.core.decide.context import Context, build_context
from dijob.core.decide.decision import JobDecision, ReportKind, decide
from dijob.core.facts import Fact
from dijob.core.observed.views import Observed
from dijob.core.report import conditions, ends, goodput, rejections, stalls, stopping
from dijob.core.report.optional import optional_conditions
from dijob.core.report.summary import apply_facts, events


@dataclass(frozen=True)
class Plan:
    """The result of one reconciliation.

    It contains the actions, the events, the seconds until the next reconciliation, and the status,
    which is written if it differs from the stored one.
    """

    status: Status
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: float = requeue.RESYNC_SECONDS
    # An action waits until this status is stored, so the write must not be delayed
    # (summary.Pressure).
    write_now: bool = False


def make_plan(job: DIJob, observed: Observed, now: datetime) -> Plan:
    """Plan one reconciliation: observe, decide, report.

    Pure: the same arguments give the same plan. Once a job is in its desired state, its plans are
    empty.
    """
    return plan_from(build_context(job, observed, now))


def plan_from(context: Context) -> Plan:
    """Plan one reconciliation from its context: the job, the observation and the time."""
    job, now = context.job, context.now
    if (left := completion.seconds_until_deletion_reported(job.metadata, now)) > 0:
        return Plan(status=job.status, requeue_after=left)
    decision = decide(context)
    facts = (*_report(decision), *rejections.rejection_facts(decision.ctx, decision.actions))
    status = apply_facts(decision.status, facts, job.metadata.generation, now)
    status = goodput.with_goodput(decision.ctx, stalls.with_stall(decision.ctx, status))
    return Plan(
        status=status,
        actions=changes.due_actions(decision.ctx, decision.actions or ()),
        events=events(job.status, status),
        requeue_after=_seconds_until_next(decision, status),
        write_now=_must_write_now(decision),
    )


def _report(decision: JobDecision) -> Iterable[Fact]:
    """Return the conditions that explain a decision."""
    ctx = decision.ctx
    match decision.report:
        case ReportKind.PROGRESS:
            return conditions.progress_facts(ctx)
        case Verdict() as verdict:
            return ends.end_facts(ctx, verdict)
        case ReportKind.DELETION:
            return stopping.deletion_facts(ctx)
        case ReportKind.SUSPENSION:
            return stopping.suspension_facts(ctx)
        case _:
            return optional_conditions(ctx)


def _seconds_until_next(decision: JobDecision, status: Status) -> float:
    """Return the seconds until the next reconciliation. A rejected action is retried when its
    back-off is over.
    """
    seconds = decision.when(decision.ctx, status)
    retry = changes.seconds_until_next(decision.ctx, decision.actions or ())
    return seconds if retry is None else max(min(seconds, retry), 0.1)


def _must_write_now(decision: JobDecision) -> bool:
    """Whether an action must wait until the status contains the failures and successes that this
    reconciliation has counted.
    """
    return decision.ctx.has_unstored_counts and (
        decision.deletes_after_counts
        or bool(decision.ctx.world.to_delete or program_starts.pods_to_confirm(decision.ctx))
    )
