"""Conditions that a job has only when there is, or was, something to say."""

from collections.abc import Callable

from dijob import names
from dijob.api import checks
from dijob.api.bypass import bypassed
from dijob.api.status import timestamp
from dijob.api.warnings import warnings
from dijob.core.members import say
from dijob.core.membership.context import Pass
from dijob.core.observed.containers import Containers
from dijob.core.observed.creations import paused_until
from dijob.core.observed.views import Refused
from dijob.core.report import redis
from dijob.core.report.redis import not_created
from dijob.core.report.summary import Fact, find, is_true
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
    "spec differs from what the running pods were made from: they are left alone, and lost ones are"
    " not re-created. Write the old one back, or suspend the job (spec.suspend: true) until its"
    " pods are gone"
)

PAUSED = (
    "paused: nothing of this job is created, changed or deleted, and no loss is healed, until its"
    f" annotation {names.ANNOTATION_PAUSED} is removed"
)


def optional_conditions(this: Pass) -> list[Fact]:
    """Conditions that are there only when there is, or was, something to say."""
    status, facts = this.job.status, []
    over = checks.ENDED_MESSAGE.format(status.phase) if status.ended else ""
    if this.template_changed:
        facts.append(Fact(Invalid.TemplateChanged, over or TEMPLATE_CHANGED))
    elif is_true(status, Invalid):
        facts.append(Fact(Invalid.Valid))
    if over and this.job.spec.suspend:
        facts.append(Fact(Suspended.Finished, over))
    elif not this.job.spec.suspend and is_true(status, Suspended) and not this.status.suspend_time:
        facts.append(Fact(Suspended.Resumed))
    if this.job.paused:
        facts.append(Fact(Paused.Annotated, PAUSED))
    elif is_true(status, Paused):
        facts.append(Fact(Paused.Resumed))
    return [*facts, *_warnings(this), *_service(this), *_policy(this), *_broker(this)]


def _service(this: Pass) -> list[Fact]:
    service, known = f"service/{this.world.gang.job}", find(this.job.status, ServiceReady)
    if not this.job.wants_service:
        return [Fact(ServiceReady.NotWanted)] if known else []
    if refusal := this.observed.refusals.get(service):
        taken = refusal.why is Refused.TAKEN
        reason = ServiceReady.ServiceNameTaken if taken else ServiceReady.ServiceRefused
        return [Fact(reason, not_created(service, refusal))]
    if service in this.observed.existing:
        return [Fact(ServiceReady.Created)] if known else []
    again = _removed(this, service)
    return [Fact(ServiceReady.ServiceRemoved, again)] if again else []


def _policy(this: Pass) -> list[Fact]:
    known = find(this.job.status, Isolated)
    if not this.observed.isolation.wanted:
        return [Fact(Isolated.NotWanted)] if known else []
    policy = f"networkpolicy/{this.world.gang.job}"
    if refusal := this.observed.refusals.get(policy):
        reason = Isolated.NameTaken if refusal.why is Refused.TAKEN else Isolated.Refused
        return [Fact(reason, not_created(policy, refusal))]
    if this.world.gang.job in this.observed.isolation.policies:
        return [Fact(Isolated.Created)] if known else []
    again = _removed(this, policy)
    return [Fact(Isolated.Removed, again)] if again else []


def _removed(this: Pass, key: str) -> str:
    """What is said of a missing object ("service/x") that something deletes again and again; "":
    nothing does.
    """
    due = paused_until(this.observed.creations.get(key), this.now)
    if due is None:
        return ""
    what = key.replace("/", " ")
    return f"{what} was deleted again and again: it is created again at {timestamp(due)}"


def _broker(this: Pass) -> list[Fact]:
    gang = this.world.gang
    if not gang.server or this.job.status.ended:
        return []
    if this.job.spec.suspend or this.status.suspend_time:
        return [Fact(BrokerReady.Suspended, "the job is suspended, and its Redis server with it")]
    return [redis.fact(gang, this.observed, this.now)]


def _warnings(this: Pass) -> list[Fact]:
    """What runs, but perhaps not as its author thinks; False once the cause is gone."""
    alone = bypassed(this.job)
    about = (*warnings(this.job), *this.observed.notes)
    others = [str(one) for one in about if one not in alone]
    otherwise = _said_by(this, "said otherwise", lambda containers: containers.otherwise)
    reason = SpecWarning.ProgramSaysOtherwise if otherwise else SpecWarning.SpecWarning
    return [
        *_warning(
            this, without_peers(this), LauncherBypassed.LauncherBypassed, LauncherBypassed.Resolved
        ),
        *_warning(this, otherwise + others, reason, SpecWarning.Resolved),
    ]


def without_peers(this: Pass) -> list[str]:
    """Which programs know no peers, by the spec or by what their launchers have reported."""
    reported = _said_by(this, "worked alone", lambda containers: containers.alone)
    return [*map(str, bypassed(this.job)), *reported]


def _said_by(this: Pass, what: str, said: Callable[[Containers], str]) -> list[str]:
    """Which ranks' launchers have said so at the end, by the first one's words."""
    pods = this.world.pods.items()
    found = {rank: said(pod.containers) for rank, pod in sorted(pods) if said(pod.containers)}
    if not found:
        return []
    verb = "has" if len(found) == 1 else "have"
    return [f"{say(found)} {verb} {what}: {found[min(found)].strip()}"]


def _warning(this: Pass, sentences: list[str], reason: Reason, gone: Reason) -> list[Fact]:
    known = is_true(this.job.status, type(gone))
    if known and this.job.status.ended:
        return []  # it stays as it was: the pods that it is about may be gone
    if sentences:
        return [Fact(reason, "; ".join(sentences))]
    return [Fact(gone)] if known else []
