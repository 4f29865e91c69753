"""Decides when a job ends (by success, failure or a deadline), and what happens to its pods and to
the job itself afterwards.

The log of a failed pod is usually the only explanation that users have. So a failed job keeps the
pods whose programs failed (unless cleanPodPolicy is All), ends those that would restart, and names
the command that prints the log.
"""

from dijob.api.status import Charge, FirstFailure, parse_time
from dijob.core.actions import Action, DeleteJob, EndPod
from dijob.core.decide import suspension
from dijob.core.decide.deletion import deletions
from dijob.core.members import count
from dijob.core.membership.context import Pass
from dijob.core.observed.endings import how_it_ended
from dijob.core.observed.views import Pod
from dijob.core.report import conditions
from dijob.core.report.optional import optional_conditions
from dijob.core.report.summary import Fact, find, is_true
from dijob.names import CleanPodPolicy, FailureAction
from dijob.reasons import BrokerReady, Failed, PeersReady, Reason, Running, Succeeded, Suspended

# A pod is ended through its deadline to keep its log (annotations.end_patch). The kubelet's reason
# for that would mislead a reader who does not expect it.
KEPT = "the pod will show DeadlineExceeded"


def end(ctx: Pass) -> list[Fact] | None:
    """Return the conditions with which the job ends now, from the first rule that applies; None if
    the job continues. Deadlines do not apply while it is paused, suspended or being deleted.
    """
    deleted = bool(ctx.job.metadata.deletion_timestamp)
    without_deadlines = ctx.job.paused or deleted or suspension.applies(ctx)
    rules = ENDS if without_deadlines else (*ENDS, *DEADLINES)
    return next((facts for rule in rules if (facts := rule(ctx))), None)


def _success(ctx: Pass) -> list[Fact] | None:
    if ctx.policy.fulfilled(ctx.world.succeeded, frozenset(ctx.world.unfinished)):
        return _end(ctx, _whose_success(ctx))
    return None


def _fatal_failure(ctx: Pass) -> list[Fact] | None:
    fatal = [rank for rank, action in ctx.new_failures.items() if action is FailureAction.FAIL_JOB]
    if not fatal:
        return None
    return _failed(
        ctx, Failed.FailurePolicy, f"{rule_in_words(ctx, fatal[0])} says FailJob", fatal[0]
    )


def _too_many_failures(ctx: Pass) -> list[Fact] | None:
    failures, limit = ctx.status.restarts, ctx.job.spec.backoff_limit
    if failures <= limit:
        return None
    return _failed(
        ctx, Failed.BackoffLimitExceeded, f"{count(failures, 'failure')}, backoffLimit is {limit}"
    )


def _not_done_in_time(ctx: Pass) -> list[Fact] | None:
    if (left := _active_left(ctx)) is None or left > 0:
        return None
    limit = ctx.job.spec.active_deadline_seconds
    message = f"not finished within activeDeadlineSeconds, {limit} s"
    return _failed(ctx, Failed.DeadlineExceeded, message)


def _not_running_in_time(ctx: Pass) -> list[Fact] | None:
    if (left := _startup_left(ctx)) is None or left > 0:
        return None
    limit, why = ctx.job.spec.startup_deadline_seconds, conditions.obstacle(ctx)
    message = f"not Running within startupDeadlineSeconds, {limit} s: {why}"
    return _failed(ctx, Failed.StartupDeadlineExceeded, message)


# The order matters: success is checked before failure.
ENDS = (_success, _fatal_failure, _too_many_failures)
DEADLINES = (_not_done_in_time, _not_running_in_time)


def deadline(ctx: Pass) -> float | None:
    """Return the seconds until a deadline ends the job; None if it has none."""
    if suspension.applies(ctx):
        return None
    return min(
        (left for left in (_active_left(ctx), _startup_left(ctx)) if left is not None),
        default=None,
    )


def clean(ctx: Pass) -> tuple[Action, ...]:
    """Return the clean-up of a job that has ended: its pods as cleanPodPolicy says, and after its
    time to live the job itself, with everything that belongs to it.
    """
    if (left := time_to_live(ctx)) is not None and left <= 0:
        return (DeleteJob(),)
    return clean_pods(ctx)


def clean_pods(ctx: Pass) -> tuple[Action, ...]:
    """Return what happens to the pods of a job that has ended."""
    pods = ctx.observed.all_pods
    policy, server = ctx.job.spec.clean_pod_policy, ctx.world.gang.server
    if policy is CleanPodPolicy.ALL:
        return deletions(pods)
    # A pod with a failed program is ended instead of deleted, so that its log stays.
    alive = [pod for pod in pods if not pod.finished and not pod.deleting]
    failed = _have_failed(ctx) if is_true(ctx.job.status, Failed) else frozenset()
    end = tuple(
        EndPod(pod.name, pod.uid) for pod in alive if pod.uid in failed and not pod.ending_soon
    )
    # A pod that has not passed its gate is deleted under every policy. After the end no peer list
    # is published and no kubelet is reminded of one, so the gate would wait indefinitely. The Redis
    # server is deleted, too: it never ends by itself.
    running = policy is CleanPodPolicy.RUNNING
    innocent = (pod for pod in alive if pod.uid not in failed)
    return (
        *end,
        *deletions(
            pod for pod in innocent if running or not _has_passed_gate(pod) or pod.name == server
        ),
    )


def _have_failed(ctx: Pass) -> frozenset[str]:
    """Return the uids of the pods that keep their logs when the job has failed: those with a
    counted failure, and those whose program failed before the end but was not counted any more.
    """
    seen = {charge.uid: charge for charge in ctx.status.restarts_seen}
    charged = {uid for uid, charge in seen.items() if charge.failures}
    ended = ctx.job.status.completion_time or ""
    late = (pod for pod in ctx.world.pods.values() if "" < pod.containers.ended <= ended)
    return frozenset(
        charged
        | {p.uid for p in late if p.containers.failures > seen.get(p.uid, Charge(rank=0)).restarts}
    )


def _has_passed_gate(pod: Pod) -> bool:
    return pod.phase != "Pending" and not pod.containers.gated


def time_to_live(ctx: Pass) -> float | None:
    """Return the seconds until a job that has ended is deleted; None if it is kept."""
    ttl, ended = (
        ctx.job.spec.ttl_seconds_after_finished,
        parse_time(ctx.job.status.completion_time),
    )
    return None if ttl is None or ended is None else ttl - (ctx.now - ended).total_seconds()


def _whose_success(ctx: Pass) -> Fact:
    if not ctx.world.unfinished:
        size = min(ctx.world.size, ctx.world.gang.size)
        return Fact(Succeeded.AllRanksSucceeded, f"all {count(size, 'rank')} exited 0")
    ranks, task = ctx.policy.decisive_in_words, ctx.policy.success
    return Fact(Succeeded.SuccessPolicy, f"{ranks} exited 0, as successPolicy: {task} requires")


def _failed(ctx: Pass, reason: Failed, message: str, rank: int | None = None) -> list[Fact]:
    """Return the conditions of a job that has failed. `rank` is the rank whose end the message
    describes already. The first failure comes last, because it may be long and is cut at its end.
    """
    if (first := ctx.status.first_failure) is None:
        return _end(ctx, Fact(reason, message))
    log = f" ({hint})" if (hint := _where_logs_are(ctx, first)) else ""
    cause = f"; the first failure: {_sentence(first)}" if first.rank != rank else ""
    return _end(ctx, Fact(reason, message + log + cause))


def _sentence(first: FirstFailure) -> str:
    how = how_it_ended(first.exit_code, first.signal, first.reason, first.message, first.cause)
    return f"{_who(first.rank, first.container)} {how}"


def _who(rank: int, container: str) -> str:
    return f"rank {rank}: container {container}" if container else f"rank {rank}"


def _where_logs_are(ctx: Pass, first: FirstFailure) -> str:
    """Return where the log of the first failure is. If its pod has been re-created since, name the
    log of another failed pod.
    """
    failed = _have_failed(ctx)
    kept = [pod for _, pod in sorted(ctx.world.pods.items()) if pod.uid in failed]
    if not kept or ctx.job.spec.clean_pod_policy is CleanPodPolicy.ALL:
        return ""
    its_own = next((pod for pod in kept if pod.name == first.pod), None)
    pod = its_own or kept[0]
    shown = its_own is not None and _shows_its_failure(pod)
    log = f"see {_logs(pod)}" if shown else f"{_logs(pod)} shows only the last run"
    return log if pod.finished or pod.deleting else f"{log}; {KEPT}"


def _shows_its_failure(pod: Pod) -> bool:
    """Whether the newest log of the failed container shows its failure.

    If the kubelet has restarted the container, this holds only for a main container with a
    launcher, which repeats the output of the failed run. `kubectl logs --previous` does not help:
    it shows nothing for a pod that has ended.
    """
    end = pod.containers.last_end
    return not (end and end.runs_again) or (pod.made.confirmable and not end.container)


def _logs(pod: Pod) -> str:
    """Return the command that prints the newest log of a pod's failed container. The main container
    is named if the pod has others, because the template may set another default for kubectl.
    """
    end = pod.containers.last_end
    container = (end.container if end else "") or (pod.made.main if pod.made.has_others else "")
    name = f" -c {container}" if container else ""
    return f"`kubectl logs {pod.name}{name}`"


def rule_in_words(ctx: Pass, rank: int) -> str:
    """Describe a failure and the rule of the failure policy that matches it; without a match, the
    runtime's default applies.
    """
    pod = ctx.world.pods[rank]
    ending = pod.containers.last_end
    end = ending.words if ending else how_it_ended(None, None, "", pod.complaint)
    subject = _who(rank, ending.container if ending else "")
    at = ctx.policy.rule(pod)
    rule = f"runtime: {ctx.job.spec.runtime}" if at is None else f"failurePolicy.rules[{at}]"
    return f"{subject} {end}, and {rule}"


def _end(ctx: Pass, fact: Fact) -> list[Fact]:
    over: list[Reason] = [Running.Finished, PeersReady.Finished]
    if ctx.world.gang.server:
        over.append(BrokerReady.Finished)
    if is_true(ctx.job.status, Suspended):
        over.append(Suspended.Finished)
    return [
        *optional_conditions(ctx),
        *(Fact(reason, "the job has ended") for reason in over),
        fact,
    ]


def _active_left(ctx: Pass) -> float | None:
    limit, status = ctx.job.spec.active_deadline_seconds, ctx.status
    if limit is None or (start := parse_time(status.start_time)) is None:
        return None
    return limit - ((ctx.now - start).total_seconds() - status.suspended_seconds)


def _startup_left(ctx: Pass) -> float | None:
    """Return the seconds until the startup deadline. It applies to each start: the first one,
    one after a suspension, and one after all ranks have restarted.
    """
    limit, status = ctx.job.spec.startup_deadline_seconds, ctx.status
    if limit is None:
        return None
    running = find(ctx.job.status, Running)
    if running and running.status == "True":
        return None
    stopped = running.last_transition_time if running else None
    starts = filter(None, map(parse_time, (status.start_time, status.resume_time, stopped)))
    return limit - (ctx.now - max(starts, default=ctx.now)).total_seconds()
