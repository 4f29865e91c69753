"""What one pass has to say about the job: the facts that become its conditions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from dijob import names
from dijob.api import checks
from dijob.api.problems import SpecError
from dijob.api.status import Status, instant
from dijob.api.warnings import warnings
from dijob.core.members import Gang, say
from dijob.core.membership import capacity
from dijob.core.membership.context import Pass
from dijob.core.membership.list_state import ListState
from dijob.core.membership.world import World
from dijob.core.observed import diagnose
from dijob.core.observed.views import Pod, Refused
from dijob.core.report import redis
from dijob.core.report.summary import Fact, ended, is_true
from dijob.names import Condition as Type

TEMPLATE_CHANGED = (
    "spec differs from what the running pods were made from: they are left alone, and lost ones are not re-created. "
    "Write the old one back, or suspend the job (spec.suspend: true) until its pods are gone"
)

PAUSED = (
    f"the annotation {names.ANNOTATION_PAUSED} is set: nothing of this job is created, changed or deleted, and nobody "
    "heals, until it is removed"
)

BROKEN = "it is left alone until it changes. That is a defect of the operator, whose log says more"

# The fields that warnings about a launcher that is gone round are about (warnings.py); all others are about the spec.
LAUNCHER_FIELDS = ("spec.launcher", ".spec.containers")


def progress(this: Pass) -> list[Fact]:
    """The conditions of a job on its way."""
    return [_pods_created(this), _addresses_ready(this), _running(this), _peers_ready(this), *bystanders(this)]


def bystanders(this: Pass) -> list[Fact]:
    """Conditions that are there only when there is, or was, something to say."""
    status, facts = this.job.status, []
    over = checks.ENDED_MESSAGE.format(status.phase) if ended(status) else ""
    if this.template_changed:
        facts.append(Fact(Type.INVALID, True, "TemplateChanged", over or TEMPLATE_CHANGED))
    elif is_true(status, Type.INVALID):
        facts.append(Fact(Type.INVALID, False, "Valid"))
    if over and this.job.spec.suspend:
        facts.append(Fact(Type.SUSPENDED, False, "Finished", over))
    elif not this.job.spec.suspend and is_true(status, Type.SUSPENDED) and not this.status.suspend_time:
        facts.append(Fact(Type.SUSPENDED, False, "Resumed"))
    if this.job.paused:
        facts.append(Fact(Type.PAUSED, True, "Annotated", PAUSED))
    elif is_true(status, Type.PAUSED):
        facts.append(Fact(Type.PAUSED, False, "Resumed"))
    facts += _warnings(this)
    refusal = this.observed.refusals.get(f"service/{this.world.gang.job}")
    if refusal:
        reason = "ServiceNameTaken" if refusal.why is Refused.TAKEN else "ServiceRefused"
        facts.append(Fact(Type.SERVICE_READY, False, reason, refusal.message))
    elif this.world.gang.job in this.observed.services and any(c.type == Type.SERVICE_READY for c in status.conditions):
        facts.append(Fact(Type.SERVICE_READY, True, "Created"))
    return facts + _broker(this)


def _broker(this: Pass) -> list[Fact]:
    gang = this.world.gang
    if not gang.server or ended(this.job.status):
        return []
    if this.job.spec.suspend or this.status.suspend_time:
        return [Fact(Type.BROKER_READY, False, "Suspended", "the job is suspended, and its Redis server with it")]
    now = redis.fact(gang, this.observed)
    return [replace(now, message=diagnose.shorten(now.message))]


def invalid(error: SpecError) -> list[Fact]:
    """The condition of a job whose spec cannot be carried out. What runs is left alone."""
    return [Fact(Type.INVALID, True, "SpecInvalid", diagnose.shorten(str(error)))]


def broken(error: Exception) -> list[Fact]:
    """The condition of a job that the operator itself fails with. What runs is left alone."""
    said = f"the operator cannot deal with this job as it is ({type(error).__name__}: {error}): {BROKEN}"
    return [Fact(Type.INVALID, True, "OperatorError", diagnose.shorten(said))]


def age(status: Status, now: datetime) -> float:
    """Seconds since the job was first seen; 0 where the status does not say."""
    start = instant(status.start_time)
    return (now - start).total_seconds() if start else 0.0


def by_task(gang: Gang, pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """How many pods of each task are in each phase (DI-orchestrator 1.1's status.taskStatus)."""
    if not gang.parts:
        return {}
    parts = ((part.name, pod.phase) for pod in pods if pod.rank >= 0 and (part := gang.member(pod.rank).part))
    counted: dict[str, dict[str, int]] = {}
    for (task, phase), count in sorted(Counter(parts).items()):
        counted.setdefault(task, {})[phase] = count
    return counted


def obstacle(this: Pass) -> str:
    """Which rank the job waits for before it is Running, and why."""
    first = _addresses_ready(this)
    return (_running(this) if first.status else first).message


def _warnings(this: Pass) -> list[Fact]:
    """What runs, but perhaps not as its author thinks; False once the cause is gone."""
    said: dict[Type, list[str]] = {Type.LAUNCHER_BYPASSED: [], Type.SPEC_WARNING: []}
    for warning in (*warnings(this.job), *this.observed.notes):
        bypassed = warning.field.endswith(LAUNCHER_FIELDS)
        said[Type.LAUNCHER_BYPASSED if bypassed else Type.SPEC_WARNING].append(str(warning))
    facts = []
    for type_, sentences in said.items():
        if sentences:
            facts.append(Fact(type_, True, type_.value, diagnose.shorten("; ".join(sentences))))
        elif is_true(this.job.status, type_):
            facts.append(Fact(type_, False, "NothingToSay"))
    return facts


def _pods_created(this: Pass) -> Fact:
    missing, size = this.world.missing, this.world.gang.size
    if not missing:
        return Fact(Type.PODS_CREATED, True, "AllCreated", f"{size} of {size} pods exist")
    refusal = diagnose.refusal(this.world.gang, missing, this.observed)
    if refusal:
        return Fact(Type.PODS_CREATED, False, *refusal)
    return Fact(Type.PODS_CREATED, False, "Creating", f"{size - len(missing)} of {size} pods exist")


def _addresses_ready(this: Pass) -> Fact:
    world = this.world
    if world.alive and not this.loss:
        if not world.unpublished:
            message = f"{world.size} addresses published as epoch {world.address_list.number}{_joining(this)}"
            return Fact(Type.ADDRESSES_READY, True, "Published", diagnose.shorten(message))
        return Fact(Type.ADDRESSES_READY, False, "Publishing", f"epoch {world.address_list.number} is being published")
    lacking = diagnose.without_address(world.gang, world.addressless, this.observed)
    renewal = this.status.last_renewal
    if (given := this.status.given_back) and world.idle and capacity.waits(this.status, this.now) > 0:
        message = f"{given.message}; tries again at {given.until}"
        return Fact(Type.ADDRESSES_READY, False, "NoRoom", diagnose.shorten(message))
    if world.dead and renewal is not None:
        message = f"{renewal.message}; {_renewed(world)}. {lacking}"
        return Fact(Type.ADDRESSES_READY, False, renewal.reason, diagnose.shorten(message.strip()))
    if not lacking and (absent := redis.absence(world.gang, this.observed)):
        message = f"all ranks have their addresses; they wait for the job's Redis server: {absent}"
        return Fact(Type.ADDRESSES_READY, False, "BrokerNotReady", diagnose.shorten(message))
    reason = "Gathering" if not _stuck(this) else "AddressMissing"
    return Fact(Type.ADDRESSES_READY, False, reason, diagnose.shorten(lacking + _begins(this)))


def _stuck(this: Pass) -> bool:
    """Whether the cluster has said why a rank has no address (else it is just on its way)."""
    pods = [pod for rank in this.world.addressless if (pod := this.world.pods.get(rank))]
    return any(pod.complaint or pod.uid in this.observed.warnings for pod in pods)


def _joining(this: Pass) -> str:
    """Who is wished for and not in the list, and why."""
    world, late = this.world, this.world.addressless
    if not late:
        return ""
    return f"; joining later: {diagnose.without_address(world.gang, late, this.observed)}"


def _begins(this: Pass) -> str:
    """Whether the job begins without those who have no address yet."""
    least, window = this.world.gang.minimum, this.job.spec.gather_seconds
    if this.world.state is not ListState.NONE or least == this.world.gang.size:
        return ""
    ranks = "rank 0 has its address" if least == 1 else f"{say(range(least))} have their addresses"
    return f" (the job begins {window} s after {ranks}, and others join later)"


def _running(this: Pass) -> Fact:
    world = this.world
    latched = is_true(this.job.status, Type.RUNNING)
    if not (world.alive or (latched and world.survivors)):
        reason, message = ("Renewing", _renewed(world)) if world.dead else ("Starting", "waits for the addresses")
        return Fact(Type.RUNNING, False, reason, message)
    lagging = _lagging(world)
    if latched or not lagging:
        # Latched: a rank that restarts in place or is renewed heals by itself, see PeersReady.
        return Fact(Type.RUNNING, True, "AllRanksReady", "it has begun, see PeersReady" if lagging else _all_run(world))
    blocked = any(world.pods[rank].complaint for rank in lagging if rank in world.pods)
    return Fact(Type.RUNNING, False, "Blocked" if blocked else "Starting", diagnose.not_ready(lagging, this.observed))


def _all_run(world: World) -> str:
    size, wish = world.size, world.gang.size
    return f"all {size} ranks run" if size == wish else f"{size} of {wish} ranks run"


def _peers_ready(this: Pass) -> Fact:
    """Whether every rank is Ready and knows the newest list now; never latched."""
    world = this.world
    if world.dead and this.status.last_renewal is not None:
        message = f"{this.status.last_renewal.message}; {_renewed(world)}"
        return Fact(Type.PEERS_READY, False, "Renewing", diagnose.shorten(message))
    lagging = _lagging(world) if world.alive else list(world.wanted)
    if not lagging:
        return Fact(Type.PEERS_READY, True, "AllRanksReady", f"all ranks are Ready, epoch {world.address_list.number}")
    restarting = is_true(this.job.status, Type.RUNNING)
    reason = "RankNotReady" if restarting else "Starting"
    if world.restarts.pending >= set(lagging):
        reason = "Renewing"
    return Fact(Type.PEERS_READY, False, reason, diagnose.not_ready(lagging, this.observed, world.restarts.pending))


def _lagging(world: World) -> list[int]:
    """The ranks that are not Ready, or do not have the list in force."""
    untold = {pod.rank for pod in world.unpublished} | world.restarts.pending
    ready = (rank for rank in world.waiting if (pod := world.pods.get(rank)) and pod.ready and rank not in untold)
    return sorted(set(world.waiting) - set(ready))


def _renewed(world: World) -> str:
    whole = world.renewing >= set(world.waiting)
    verb = "is" if len(world.renewing) == 1 else "are"
    return "the whole set is renewed" if whole else f"{say(world.renewing)} {verb} renewed, the others run on"
