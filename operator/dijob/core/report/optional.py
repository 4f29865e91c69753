"""Builds the conditions that a job has only once they have been relevant: Invalid, Suspended,
Paused, warnings about the spec, and the objects that all ranks share.

A condition that was never a problem is left out, so that `kubectl describe` stays short. One that
was a problem stays and becomes False (or True), so that programs which wait for it see the change.
"""

from collections.abc import Callable

from dijob import names
from dijob.api import checks
from dijob.api.bypass import bypass_problems
from dijob.api.status import format_time
from dijob.api.warnings import job_warnings
from dijob.core.decide.context import Context
from dijob.core.facts import Fact, find_condition, is_true
from dijob.core.members import format_ranks
from dijob.core.observed.containers import Containers
from dijob.core.observed.creations import paused_until
from dijob.core.observed.services import changed_fields
from dijob.core.observed.views import RejectionCause
from dijob.core.render import service as render_service
from dijob.core.report import shared_objects
from dijob.core.report.shared_objects import describe_edit, not_created
from dijob.reasons import (
    BrokerReady,
    Invalid,
    Isolated,
    LauncherBypassed,
    Paused,
    Reason,
    ServiceReady,
    SpecWarning,
    Suspended,
)

TEMPLATE_CHANGED = (
    "the spec does not match the running pods: they keep running unchanged, and lost pods are not"
    " re-created. Restore the old spec, or suspend the job (spec.suspend: true) until its pods are"
    " gone"
)

PAUSED = (
    "paused: the operator creates, changes and deletes nothing for this job, and replaces no lost"
    f" pod, until the annotation {names.ANNOTATION_PAUSED} is removed"
)


def optional_conditions(ctx: Context) -> list[Fact]:
    """Return the optional conditions that are, or were, relevant."""
    status, facts = ctx.job.status, []
    # A change of an ended job has no effect, so the message says what to do instead.
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
        *_service_facts(ctx),
        *_policy_facts(ctx),
        *_redis_facts(ctx),
    ]


def _service_facts(ctx: Context) -> list[Fact]:
    service, known = f"service/{ctx.world.gang.job}", find_condition(ctx.job.status, ServiceReady)
    if not ctx.job.wants_service:
        return [Fact(ServiceReady.NotWanted)] if known else []
    if refusal := ctx.observed.refusals.get(service):
        taken = refusal.why is RejectionCause.TAKEN
        reason = ServiceReady.ServiceNameTaken if taken else ServiceReady.ServiceRefused
        return [Fact(reason, not_created(service, refusal))]
    # While it is being created for the first time, there is nothing to report.
    if service in ctx.observed.existing:
        spec = render_service.headless_spec(ctx.world.gang.job)
        # The ranks of an ended job need no names.
        name = ctx.world.gang.job
        if not ctx.job.status.ended and (changed := changed_fields(ctx.observed, name, spec)):
            return [Fact(ServiceReady.ServiceChanged, describe_edit(name, changed))]
        return [Fact(ServiceReady.Created)] if known else []
    removed = _describe_removal(ctx, service)
    return [Fact(ServiceReady.ServiceRemoved, removed)] if removed else []


def _policy_facts(ctx: Context) -> list[Fact]:
    known = find_condition(ctx.job.status, Isolated)
    if not ctx.observed.isolation.wanted:
        return [Fact(Isolated.NotWanted)] if known else []
    policy = f"networkpolicy/{ctx.world.gang.job}"
    if refusal := ctx.observed.refusals.get(policy):
        reason = Isolated.NameTaken if refusal.why is RejectionCause.TAKEN else Isolated.Refused
        return [Fact(reason, not_created(policy, refusal))]
    if ctx.world.gang.job in ctx.observed.isolation.policies:
        return [Fact(Isolated.Created)] if known else []
    removed = _describe_removal(ctx, policy)
    return [Fact(Isolated.Removed, removed)] if removed else []


def _describe_removal(ctx: Context, key: str) -> str:
    """Describe a missing object ("service/x") that is deleted repeatedly; "" if it is not."""
    due = paused_until(ctx.observed.creations.get(key), ctx.now)
    if due is None:
        return ""
    what = key.replace("/", " ")
    return f"{what} was deleted repeatedly, and will be re-created at {format_time(due)}"


def _redis_facts(ctx: Context) -> list[Fact]:
    gang = ctx.world.gang
    if not gang.server or ctx.job.status.ended:
        return []
    if ctx.job.spec.suspend or ctx.next_status.suspend_time:
        return [Fact(BrokerReady.Suspended, "the job is suspended, so its Redis server is stopped")]
    return [shared_objects.server_fact(ctx)]


def _warning_facts(ctx: Context) -> list[Fact]:
    """Return the warnings about a job that runs, but perhaps not as its author expects. They become
    False when the cause is gone.
    """
    # LauncherBypassed is a condition of its own, because it can make a result worthless.
    alone = bypass_problems(ctx.job)
    about = (*job_warnings(ctx.job), *ctx.observed.notes)
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
    """Return a sentence that names the ranks with this report in their termination messages, and
    quotes the report of the lowest rank; [] if there is none.
    """
    pods = ctx.world.pods.items()
    found = {rank: report(pod.containers) for rank, pod in sorted(pods) if report(pod.containers)}
    return [f"{format_ranks(found)} {what}: {found[min(found)].strip()}"] if found else []


def _warning_fact(ctx: Context, sentences: list[str], reason: Reason, gone: Reason) -> list[Fact]:
    known = is_true(ctx.job.status, type(gone))
    if known and ctx.job.status.ended:
        return []  # The condition stays: the pods that caused it may be deleted by now.
    if sentences:
        return [Fact(reason, "; ".join(sentences))]
    return [Fact(gone)] if known else []
