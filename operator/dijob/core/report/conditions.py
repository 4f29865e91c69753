"""Builds the conditions of a job: pods, addresses, Running and PeersReady.

Every reconciliation computes all conditions again from the current state, so a condition can never
outlive its cause. The exception is Running: once True, it stays True until every rank has to
restart. A job that recovers by itself should not alarm its users (PeersReady reports the recovery).
"""

from dijob.api.problems import SpecError
from dijob.api.status import Renewal
from dijob.core.decide.context import Context
from dijob.core.facts import (
    NOT_READY_SECONDS,
    Fact,
    is_true,
    job_age,
    seconds_until_problem,
)
from dijob.core.members import format_all, format_count, format_ranks
from dijob.core.membership import capacity
from dijob.core.membership.list_state import ListState
from dijob.core.membership.world import World
from dijob.core.observed import diagnose
from dijob.core.observed.grouping import MESSAGE_LIMIT, shorten_message
from dijob.core.report import shared_objects
from dijob.core.report.optional import optional_conditions, without_peers
from dijob.core.report.past_failures import past_failures
from dijob.core.report.stalls import stall_facts
from dijob.reasons import (
    AddressesReady,
    Invalid,
    PeersReady,
    PodsCreated,
    Running,
)

BROKEN = (
    "The operator leaves the job as it is until the job changes. This is a bug in the operator, and"
    " its log has the traceback"
)

NO_PEERS = "some programs might not know their peers, see the condition LauncherBypassed"


def progress_facts(ctx: Context) -> list[Fact]:
    """Return the conditions of a job that is not suspended, is not being deleted and has not
    ended.
    """
    return [
        _pods_created(ctx),
        _addresses_ready(ctx),
        _running_fact(ctx),
        _peers_ready(ctx),
        *optional_conditions(ctx),
        *stall_facts(ctx),
    ]


def invalid_facts(error: SpecError) -> list[Fact]:
    """Return the condition of a job whose spec is invalid. Its pods keep running."""
    return [Fact(Invalid.SpecInvalid, str(error))]


def broken_facts(error: Exception) -> list[Fact]:
    """Return the condition of a job whose reconciliation raised an unexpected exception. Its pods
    keep running.
    """
    message = (
        f"the operator failed to reconcile this job ({type(error).__name__}: {error}). {BROKEN}"
    )
    return [Fact(Invalid.OperatorError, message)]


def describe_obstacle(ctx: Context) -> str:
    """Return which rank keeps the job from being Running, and why."""
    # Without addresses, Running only says "waiting for addresses".
    first = _addresses_ready(ctx)
    return (_running_fact(ctx) if first.reason.entry.status else first).message


def _pods_created(ctx: Context) -> Fact:
    missing, size = ctx.world.missing, ctx.world.gang.size
    there = sum(rank in ctx.world.pods for rank in range(size))
    if not missing:
        finished = "" if there == size else ", the other ranks have finished"
        return Fact(PodsCreated.AllCreated, f"{there} of {size} pods exist{finished}")
    # An API error explains more than the operator's own state.
    if rejection := diagnose.describe_rejections(ctx.world.gang, missing, ctx.observed):
        return Fact(*rejection)
    existing = f"{there} of {size} pods exist"
    if not (paused := diagnose.describe_pauses(ctx.world.gang, missing, ctx.observed, ctx.now)):
        return Fact(PodsCreated.Creating, existing)
    # If a node rejects the pod, the node's reason (in AddressesReady) explains more than the
    # back-off.
    rejected = any(diagnose.not_admitted(ctx.world.gang, rank, ctx.observed) for rank in missing)
    reason = PodsCreated.Creating if rejected else PodsCreated.BackOff
    return Fact(reason, f"{existing}; {paused}")


def _addresses_ready(ctx: Context) -> Fact:
    world = ctx.world
    if world.list_is_active and not ctx.loss:
        if ctx.unpublished:
            return Fact(
                AddressesReady.Publishing,
                f"peer list revision {world.address_list.number} is being published",
            )
        message = (
            f"{format_count(world.size, 'address', 'addresses')} published as peer list revision"
            f" {world.address_list.number}"
        )
        return Fact(AddressesReady.Published, message + _describe_joining(ctx))
    return _without_list(
        ctx, diagnose.without_address(world.gang, world.addressless, ctx.observed, ctx.now)
    )


def _without_list(ctx: Context, lacking: str) -> Fact:
    """Explain why no peer list is active. `lacking` names the ranks without an address, and says
    why they have none.
    """
    world, given = ctx.world, ctx.next_status.given_back
    if given and world.no_rank_runs and capacity.seconds_until_retry(ctx.next_status, ctx.now) > 0:
        message = f"{given.message}; the job tries again at {given.until}"
        return Fact(AddressesReady.NoRoom, message)
    if renewal := _last_loss(ctx):
        # The names of the ranks come last. If the message is too long, the cause of the loss is
        # shortened, so that these names are not cut off.
        rest = f"; {_renewal_in_words(world)}. {lacking}".rstrip()
        reason = AddressesReady.__members__.get(renewal.reason, AddressesReady.ListLost)
        return Fact(reason, shorten_message(renewal.message, MESSAGE_LIMIT - len(rest)) + rest)
    # The Redis server is reported only if no rank lacks an address, because the server usually
    # starts before the ranks.
    if not lacking and (absent := shared_objects.describe_absence(ctx)):
        message = f"all ranks have addresses and are waiting for the job's Redis server: {absent}"
        return Fact(AddressesReady.BrokerNotReady, message)
    reason = AddressesReady.AddressMissing if _is_stuck(ctx) else AddressesReady.Gathering
    if any(pod.unmountable for pod in world.pods.values()):
        reason = AddressesReady.LauncherNotMounted
    return Fact(reason, lacking + _describe_start(ctx))


def _last_loss(ctx: Context) -> Renewal | None:
    """Return the loss from which the job is recovering, or None. (A suspension is not a loss.)"""
    return ctx.next_status.last_renewal if ctx.world.state is ListState.STALE else None


def _is_stuck(ctx: Context) -> bool:
    """Whether the cluster has reported why a rank has no address. If it has not, the rank's pod is
    just starting.
    """
    ranks, gang = ctx.world.addressless, ctx.world.gang
    pods = [pod for rank in ranks if (pod := ctx.world.pods.get(rank))]
    explained = any(pod.complaint or pod.uid in ctx.observed.warnings for pod in pods)
    return explained or any(diagnose.not_admitted(gang, rank, ctx.observed) for rank in ranks)


def _describe_joining(ctx: Context) -> str:
    """Return which desired ranks are missing from the active peer list, and why."""
    world, late = ctx.world, ctx.world.addressless
    if not late:
        return ""
    why = diagnose.without_address(world.gang, late, ctx.observed, ctx.now)
    return f"; joining later: {why}"


def _describe_start(ctx: Context) -> str:
    """Return a phrase that says when the job will start without the ranks that have no address yet.
    Return "" if the job waits for all ranks, or has already started.
    """
    least, window = ctx.world.gang.minimum, ctx.job.spec.gather_seconds
    if ctx.world.state is not ListState.NONE or least == ctx.world.gang.size:
        return ""
    ranks = (
        "rank 0 has its address"
        if least == 1
        else f"{format_ranks(range(least))} have their addresses"
    )
    return f" (the job starts {window} s after {ranks}; other ranks can join later)"


def _running_fact(ctx: Context) -> Fact:
    world = ctx.world
    latched = is_true(ctx.job.status, Running)
    if not (world.list_is_active or (latched and world.survivors)):
        if _last_loss(ctx):
            return Fact(Running.Renewing, _renewal_in_words(world))
        return Fact(Running.Starting, "waiting for addresses, see AddressesReady")
    lagging = lagging_ranks(ctx)
    if latched or not lagging:
        # Running is latched: ranks that restart recover by themselves, and PeersReady reports them.
        return Fact(
            Running.Begun, "the job has started, see PeersReady" if lagging else _all_run(ctx)
        )
    wrong = any(diagnose.rank_trouble(rank, ctx.observed, ctx.now) for rank in lagging)
    reason = Running.Blocked if wrong else Running.Starting
    young = job_age(ctx.job.status, ctx.now) < NOT_READY_SECONDS
    expected = diagnose.Expected(usual="it may still be starting" if young else "")
    message = diagnose.not_ready(world.gang, lagging, ctx.observed, ctx.now, expected)
    return Fact(reason, message)


def _all_run(ctx: Context) -> str:
    """Return a message that says how many ranks are running. As long as no rank has finished, the
    message also contains the failures so far. Otherwise, it also says which ranks have finished,
    when the last of these did, and what ends the job.
    """
    world, wish = ctx.world, ctx.world.gang.size
    done = [rank for rank in sorted(world.succeeded) if rank < world.size]
    if not done:
        part = f"{world.size} of {format_count(wish, 'rank')}"
        ranks = format_all(wish, "rank") if world.size == wish else part
        verb = "is" if world.size == 1 else "are"
        return f"{ranks} {verb} running{past_failures(ctx)}"
    ends = [pod.containers.ended for rank in done if (pod := world.pods.get(rank))]
    since = f" (at {last})" if (last := max(ends, default="")) else ""
    left = len(world.unfinished)
    run = f"{left} of {format_count(wish, 'rank')} {'is' if left == 1 else 'are'} running"
    verb = "has" if len(done) == 1 else "have"
    until = f"the job ends when {ctx.policy.decisive_in_words} exited 0"
    return f"{run}, {format_ranks(done)} {verb} finished{since}; {until}"


def _peers_ready(ctx: Context) -> Fact:
    """Whether every rank is currently Ready and has the newest peer list. Never latched."""
    world = ctx.world
    if renewal := _last_loss(ctx):
        message = f"{renewal.message}; {_renewal_in_words(world)}"
        return Fact(PeersReady.Renewing, message)
    lagging = lagging_ranks(ctx) if world.list_is_active else list(world.wanted)
    if not lagging:
        ready = f"all ranks are Ready with peer list revision {world.address_list.number}"
        # All ranks can be Ready even if a program bypasses the launcher. Such a program listens on
        # its port, but trains without its peers.
        if without_peers(ctx):
            return Fact(PeersReady.LauncherBypassed, f"{ready}, but {NO_PEERS}")
        return Fact(PeersReady.AllRanksReady, ready)
    restart = world.restarts.pending >= set(lagging)
    if not (restart or is_true(ctx.job.status, Running)):
        return Fact(PeersReady.Starting, "the job has not started, see Running")
    lasts = (left := seconds_until_problem(ctx.job.status, ctx.now)) is not None and left <= 0
    usual = "" if lasts else _starting_or_ending(world)
    expected = diagnose.Expected(world.restarts.pending, usual)
    message = diagnose.not_ready(world.gang, lagging, ctx.observed, ctx.now, expected)
    if restart:
        return Fact(PeersReady.Renewing, message)
    # Ranks that are only slow become a problem after NOT_READY_SECONDS.
    wrong = lasts or any(diagnose.rank_trouble(rank, ctx.observed, ctx.now) for rank in lagging)
    return Fact(PeersReady.RankNotReady if wrong else PeersReady.Starting, message)


def _starting_or_ending(world: World) -> str:
    """Return why a running program may briefly be unready: it closes its port shortly before it
    exits.
    """
    if done := [rank for rank in sorted(world.succeeded) if rank < world.size]:
        verb = "has" if len(done) == 1 else "have"
        return f"it is probably exiting, because {format_ranks(done)} {verb} finished"
    return "it may be starting or exiting"


def lagging_ranks(ctx: Context) -> list[int]:
    """Return the ranks that are not Ready, or do not have the active peer list yet."""
    world = ctx.world
    without = {pod.rank for pod in ctx.unpublished} | world.restarts.pending
    ready = (
        rank
        for rank in world.unfinished
        if (pod := world.pods.get(rank)) and pod.ready and rank not in without
    )
    return sorted(set(world.unfinished) - set(ready))


def _renewal_in_words(world: World) -> str:
    if world.renewing >= set(world.unfinished):
        return "all ranks restart"
    verb = "restarts" if len(world.renewing) == 1 else "restart"
    return f"{format_ranks(world.renewing)} {verb}, and the other ranks keep running"
