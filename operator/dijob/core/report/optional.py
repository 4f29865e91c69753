"""Builds the optional conditions, which a job gets only when they are relevant.

These are Invalid, Suspended, Paused, warnings about the spec, and the conditions about the objects
that all ranks share.

A condition that was never a problem is left out, so that `kubectl describe` stays short. A
condition that was a problem is kept after the problem is gone. Its status then changes (Invalid to
False, ServiceReady to True), so that programs that wait for this condition see the change.
"""

from collections.abc import Callable

from dijob import names
from dijob.api import checks
from dijob.api.bypass import bypass_problems
from dijob.api.warnings import job_warnings
from dijob.core.decide.context import Context
from dijob.core.facts import Fact, is_true
from dijob.core.members import format_ranks
from dijob.core.observed.containers import Containers
from dijob.core.report.gang import gang_facts
from dijob.core.report.shared_objects import shared_object_facts
from dijob.names import Engine
from dijob.reasons import (
    Invalid,
    LauncherBypassed,
    Paused,
    Reason,
    SpecWarning,
    Suspended,
)

TEMPLATE_CHANGED = (
    "the spec does not match the running pods: they keep running unchanged, and lost pods are not"
    " re-created. Restore the old spec, or suspend the job (spec.suspend: true) until its pods are"
    " gone"
)

PAUSED = (
    "paused: the operator does not create, change or delete any objects of this job, and does not"
    f" replace lost pods, until the annotation {names.ANNOTATION_PAUSED} is removed"
)


def optional_conditions(ctx: Context) -> list[Fact]:
    """Return the optional conditions that are, or were, relevant."""
    status, facts = ctx.job.status, []
    # A change to an ended job has no effect, so the message says what to do instead.
    over = checks.ENDED_MESSAGE.format(status.phase) if status.ended else ""
    if ctx.template_changed:
        facts.append(Fact(Invalid.TemplateChanged, over or TEMPLATE_CHANGED))
    elif is_true(status, Invalid):
        facts.append(Fact(Invalid.Valid))
    if over and ctx.job.spec.suspend:
        facts.append(Fact(Suspended.Finished, over))
    elif (
        not ctx.job.spec.suspend and is_true(status, Suspended) and not ctx.next_status.suspend_time
    ):
        facts.append(Fact(Suspended.Resumed))
    if ctx.job.paused:
        facts.append(Fact(Paused.Annotated, PAUSED))
    elif is_true(status, Paused):
        facts.append(Fact(Paused.Resumed))
    return [
        *facts,
        *_warning_facts(ctx),
        *shared_object_facts(ctx),
        *gang_facts(ctx),
    ]


def _warning_facts(ctx: Context) -> list[Fact]:
    """Return the warnings about a job that runs, but perhaps not as its author expects. They become
    False when the cause is gone.
    """
    # LauncherBypassed is a separate condition, because a bypassed launcher can make a result
    # worthless.
    alone = bypass_problems(ctx.job)
    queued = ctx.observed.scheduling.engine is Engine.KUEUE
    about = (*job_warnings(ctx.job, queued=queued), *ctx.observed.notes)
    others = [str(one) for one in about if one not in alone]
    otherwise = _reported_by(
        ctx, "passed arguments that conflict with the job", lambda containers: containers.otherwise
    )
    reason = SpecWarning.ProgramSaysOtherwise if otherwise else SpecWarning.SpecWarning
    return [
        *_warning_fact(
            ctx, without_peers(ctx), LauncherBypassed.LauncherBypassed, LauncherBypassed.Resolved
        ),
        *_warning_fact(ctx, otherwise + others, reason, SpecWarning.Resolved),
    ]


def without_peers(ctx: Context) -> list[str]:
    """Return sentences about programs that do not know their peers, according to the spec or to
    the reports of their launchers.
    """
    reported = _reported_by(ctx, "ran without peers", lambda containers: containers.alone)
    return [*map(str, bypass_problems(ctx.job)), *reported]


def _reported_by(ctx: Context, what: str, report: Callable[[Containers], str]) -> list[str]:
    """Return a list with one sentence; [] if no rank has such a report.

    The sentence names the ranks that have this report in their termination messages, and quotes the
    report of the lowest rank.
    """
    pods = ctx.world.pods.items()
    found = {rank: report(pod.containers) for rank, pod in sorted(pods) if report(pod.containers)}
    return [f"{format_ranks(found)} {what}: {found[min(found)].strip()}"] if found else []


def _warning_fact(ctx: Context, sentences: list[str], reason: Reason, gone: Reason) -> list[Fact]:
    known = is_true(ctx.job.status, type(gone))
    if known and ctx.job.status.ended:
        return []  # The condition stays: the pods that caused it may have been deleted by now.
    if sentences:
        return [Fact(reason, "; ".join(sentences))]
    return [Fact(gone)] if known else []
