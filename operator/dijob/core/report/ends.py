"""Reports why a job ended, which failure was the first, and which command prints the log of a
failed container.
"""

from dijob.api.status import FirstFailure
from dijob.core.decide import completion
from dijob.core.decide.completion import Verdict
from dijob.core.decide.context import Context
from dijob.core.decide.re_rendezvous import describe_rule
from dijob.core.facts import Fact, is_true
from dijob.core.members import format_all, format_count
from dijob.core.observed.endings import describe_failed_part, how_it_ended
from dijob.core.observed.views import Pod
from dijob.core.report import conditions
from dijob.core.report.optional import optional_conditions
from dijob.names import CleanPodPolicy, Engine
from dijob.reasons import (
    BrokerReady,
    Failed,
    GangScheduled,
    PeersReady,
    ProgressStalled,
    Reason,
    Running,
    Succeeded,
    Suspended,
)

# To keep a pod's log, the operator terminates the pod by setting its deadline
# (annotations.end_patch). kubectl then shows DeadlineExceeded, or ContainerStatusUnknown if the
# container was waiting for a restart. Without this hint, readers would search for the cause of that
# status.
KEPT = "ignore the pod's STATUS"


def end_facts(ctx: Context, verdict: Verdict) -> list[Fact]:
    """Return the conditions of a job that is ending."""
    return _end_conditions(ctx, _end_cause(ctx, verdict))


def _end_cause(ctx: Context, verdict: Verdict) -> Fact:
    spec, reason, rank = ctx.job.spec, verdict.reason, verdict.rank
    match reason:
        case Succeeded():
            return Fact(reason, _successes_in_words(ctx, reason))
        case Failed.FailurePolicy if rank is not None:
            text = f"{describe_rule(ctx, rank)} says FailJob"
        case Failed.BackoffLimitExceeded:
            failures, limit = ctx.next_status.restarts, spec.backoff_limit
            text = f"{format_count(failures, 'failure')}, backoffLimit is {limit}"
        case Failed.StartupDeadlineExceeded:
            seconds, why = spec.startup_deadline_seconds, conditions.describe_obstacle(ctx)
            text = f"not Running within startupDeadlineSeconds ({seconds} s): {why}"
        case _:
            seconds = spec.active_deadline_seconds
            text = f"not finished within activeDeadlineSeconds ({seconds} s)"
    return Fact(reason, text + _first_failure(ctx, rank))


def _successes_in_words(ctx: Context, reason: Succeeded) -> str:
    if reason is Succeeded.AllRanksSucceeded:
        size = min(ctx.world.size, ctx.world.gang.size)
        return f"{format_all(size, 'rank')} exited 0"
    ranks, task = ctx.policy.decisive_in_words, ctx.policy.success
    return f"{ranks} exited 0, as successPolicy: {task} requires"


def _first_failure(ctx: Context, rank: int | None) -> str:
    """Return where the log of the first failure is, and the cause of that failure. `rank` is the
    rank whose end the message already describes. The cause comes last, because a long message is
    truncated at its end.
    """
    if (first := ctx.next_status.first_failure) is None:
        return ""
    log = f" ({hint})" if (hint := _where_logs_are(ctx, first)) else ""
    cause = f"; the first failure: {_describe_failure(first)}" if first.rank != rank else ""
    return log + cause


def _describe_failure(first: FirstFailure) -> str:
    how = how_it_ended(first.exit_code, first.signal, first.reason, first.message, first.cause)
    return f"{describe_failed_part(first.rank, first.container)} {how}"


def _where_logs_are(ctx: Context, first: FirstFailure) -> str:
    """Return where the log of the first failure is. If its pod has since been re-created, name the
    log of another failed pod.
    """
    failed = completion.failed_pods(ctx)
    kept = [pod for _, pod in sorted(ctx.world.pods.items()) if pod.uid in failed]
    if not kept or ctx.job.spec.clean_pod_policy is CleanPodPolicy.ALL:
        return ""
    its_own = next((pod for pod in kept if pod.name == first.pod), None)
    pod = its_own or kept[0]
    shown = its_own is not None and _shows_its_failure(pod)
    command = _logs_command(pod)
    log = f"see {command}" if shown else f"{command} shows only the container's last run"
    return log if pod.finished or pod.deleting else f"{log}; {KEPT}"


def _shows_its_failure(pod: Pod) -> bool:
    """Whether the newest log of the failed container shows its failure.

    If the kubelet has restarted the container, this is true only for a main container with a
    launcher. The launcher repeats the output of the failed run. `kubectl logs --previous` does not
    help: it shows nothing for a pod that has ended.
    """
    end = pod.containers.last_end
    return not (end and end.runs_again) or (pod.made.confirmable and not end.container)


def _logs_command(pod: Pod) -> str:
    """Return the command that prints the newest log of a pod's failed container.

    The command names the main container only if the pod has other containers, because the template
    may then set a different default container for kubectl.
    """
    end = pod.containers.last_end
    container = (end.container if end else "") or (pod.made.main if pod.made.has_others else "")
    name = f" -c {container}" if container else ""
    return f"`kubectl logs {pod.name}{name}`"


def _end_conditions(ctx: Context, fact: Fact) -> list[Fact]:
    over: list[Reason] = [Running.Finished, PeersReady.Finished]
    if ctx.world.gang.server:
        over.append(BrokerReady.Finished)
    if ctx.observed.scheduling.engine is not Engine.NONE:
        over.append(GangScheduled.Finished)
    if is_true(ctx.job.status, Suspended):
        over.append(Suspended.Finished)
    # If the job has failed, the condition stays, because it may explain the failure.
    if is_true(ctx.job.status, ProgressStalled) and isinstance(fact.reason, Succeeded):
        over.append(ProgressStalled.NotChecked)
    return [
        *optional_conditions(ctx),
        *(Fact(reason, "the job has ended") for reason in over),
        fact,
    ]
