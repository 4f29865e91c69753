"""How a job ends: by whose success, by which failure or deadline; and what is cleaned up after
it.
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

# How a pod shows it that is ended so that its log stays (annotations.end_patch).
KEPT = "the pod will show DeadlineExceeded"


def end(ctx: Pass) -> list[Fact] | None:
    """The conditions with which the job ends in this pass, by the first rule that says so; None: it
    goes on. Deadlines do not count while it is paused, suspended or being deleted."""
    going = bool(ctx.job.metadata.deletion_timestamp)
    stands = ctx.job.paused or going or suspension.applies(ctx)
    rules = ENDS if stands else (*ENDS, *DEADLINES)
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


# In the order in which they are asked: who has succeeded has not failed as well.
ENDS = (_success, _fatal_failure, _too_many_failures)
DEADLINES = (_not_done_in_time, _not_running_in_time)


def deadline(ctx: Pass) -> float | None:
    """Seconds until a deadline ends the job; None where it has none."""
    if suspension.applies(ctx):
        return None
    return min(
        (left for left in (_active_left(ctx), _startup_left(ctx)) if left is not None),
        default=None,
    )


def clean(ctx: Pass) -> tuple[Action, ...]:
    """After the end: pods go as cleanPodPolicy says. One that failed again and again is ended so
    that its logs stay. When its time to live is over, the job itself goes, and all that belongs to
    it.
    """
    if (left := time_to_live(ctx)) is not None and left <= 0:
        return (DeleteJob(),)
    return clean_pods(ctx)


def clean_pods(ctx: Pass) -> tuple[Action, ...]:
    """What happens to the pods of a job that has ended."""
    pods = ctx.observed.all_pods
    policy, server = ctx.job.spec.clean_pod_policy, ctx.world.gang.server
    if policy is CleanPodPolicy.ALL:
        return deletions(pods)
    going = [pod for pod in pods if not pod.finished and not pod.deleting]
    failed = _have_failed(ctx) if is_true(ctx.job.status, Failed) else frozenset()
    end = tuple(
        EndPod(pod.name, pod.uid) for pod in going if pod.uid in failed and not pod.ending_soon
    )
    # A pod that has not passed its gate is deleted under every policy: after the end no list comes,
    # and no kubelet is reminded of one (requeue.REMIND_SECONDS), so that it would wait for ever.
    running = policy is CleanPodPolicy.RUNNING
    innocent = (pod for pod in going if pod.uid not in failed)
    return (
        *end,
        *deletions(
            pod for pod in innocent if running or not _has_passed_gate(pod) or pod.name == server
        ),
    )


def _have_failed(ctx: Pass) -> frozenset[str]:
    """Return the uids of the pods that keep their logs when the job has failed: those with a
    charged failure, and those whose program had failed as well when the job ended.
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
    """Seconds until a job that has ended is deleted; None: it is not."""
    ttl, ended = (
        ctx.job.spec.ttl_seconds_after_finished,
        parse_time(ctx.job.status.completion_time),
    )
    return None if ttl is None or ended is None else ttl - (ctx.now - ended).total_seconds()


def _whose_success(ctx: Pass) -> Fact:
    if not ctx.world.unfinished:
        size = min(ctx.world.size, ctx.world.gang.size)
        return Fact(Succeeded.AllRanksSucceeded, f"all {count(size, 'rank')} exited 0")
    who, task = ctx.policy.decisive_in_words, ctx.policy.success
    return Fact(Succeeded.SuccessPolicy, f"{who} exited 0, as successPolicy: {task} requires")


def _failed(ctx: Pass, reason: Failed, message: str, rank: int | None = None) -> list[Fact]:
    """The conditions of a job that has failed; `rank` is the one whose end is in the message. The
    cause comes last, since it says most and may be long.
    """
    if (first := ctx.status.first_failure) is None:
        return _end(ctx, Fact(reason, message))
    log = f" ({said})" if (said := _where_logs_are(ctx, first)) else ""
    cause = f"; the first failure: {_sentence(first)}" if first.rank != rank else ""
    return _end(ctx, Fact(reason, message + log + cause))


def _sentence(first: FirstFailure) -> str:
    how = how_it_ended(first.exit_code, first.signal, first.reason, first.message, first.cause)
    return f"{_who(first.rank, first.container)} {how}"


def _who(rank: int, container: str) -> str:
    return f"rank {rank}: container {container}" if container else f"rank {rank}"


def _where_logs_are(ctx: Pass, first: FirstFailure) -> str:
    """Where there is a log: the pod may have been re-created since, and others have failed last."""
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
    """Whether the newest log of the container that failed has that failure. If the kubelet has
    started the container again, only the launcher of a main container sees to that: of a pod that
    has ended, `kubectl logs --previous` shows nothing.
    """
    end = pod.containers.last_end
    return not (end and end.runs_again) or (pod.made.confirmable and not end.container)


def _logs(pod: Pod) -> str:
    """The command that prints the newest log of the container that failed in a pod. kubectl takes
    another container than the main one by itself if the template asks for that.
    """
    end = pod.containers.last_end
    container = (end.container if end else "") or (pod.made.main if pod.made.has_others else "")
    name = f" -c {container}" if container else ""
    return f"`kubectl logs {pod.name}{name}`"


def rule_in_words(ctx: Pass, rank: int) -> str:
    """Which rule a failure has met, in words; without one it is the runtime's."""
    pod = ctx.world.pods[rank]
    ending = pod.containers.last_end
    end = ending.words if ending else how_it_ended(None, None, "", pod.complaint)
    who = _who(rank, ending.container if ending else "")
    at = ctx.policy.rule(pod)
    rule = f"runtime: {ctx.job.spec.runtime}" if at is None else f"failurePolicy.rules[{at}]"
    return f"{who} {end}, and {rule}"


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
    """Each start counts for itself: the first, one after the job was suspended, one after all ranks
    were renewed.
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
