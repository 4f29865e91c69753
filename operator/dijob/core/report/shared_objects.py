"""Reports the objects that several ranks of a job share: its Service, its NetworkPolicy, its
PodDisruptionBudgets and its Redis server.
"""

from collections.abc import Iterable

from dijob.api.status import format_time
from dijob.core.decide.budgets import budget_key
from dijob.core.decide.context import REDIS_KINDS, Context
from dijob.core.facts import Fact, find_condition
from dijob.core.observed import remedies
from dijob.core.observed.creations import lost_until, paused_until
from dijob.core.observed.services import changed_fields
from dijob.core.observed.views import ApiRejection, RejectionCause
from dijob.core.render import service as render_service
from dijob.core.render.budget import wanted_budgets
from dijob.reasons import BrokerReady, DrainsLimited, Isolated, ServiceReady

# Rejections whose message is the API error. The operator writes the messages of all other
# rejections.
FROM_API = (RejectionCause.REJECTED, RejectionCause.FORBIDDEN, RejectionCause.UNAVAILABLE)
# BrokerReady's reasons for rejections that do not come from the API server.
REASONS = {
    RejectionCause.TAKEN: BrokerReady.NameTaken,
    RejectionCause.OUTDATED: BrokerReady.OtherPort,
}


def shared_object_facts(ctx: Context) -> list[Fact]:
    """Of the conditions about the shared objects, return those that are or were relevant."""
    return [
        *_service_facts(ctx),
        *_policy_facts(ctx),
        *_budget_facts(ctx),
        *_redis_facts(ctx),
    ]


def _service_facts(ctx: Context) -> list[Fact]:
    service, known = f"service/{ctx.world.gang.job}", find_condition(ctx.job.status, ServiceReady)
    if not ctx.job.wants_service:
        return [Fact(ServiceReady.NotWanted)] if known else []
    if rejection := ctx.observed.rejections.get(service):
        taken = rejection.why is RejectionCause.TAKEN
        reason = ServiceReady.ServiceNameTaken if taken else ServiceReady.ServiceRefused
        return [Fact(reason, not_created(service, rejection))]
    # While the Service is being created for the first time, there is nothing to report.
    if service in ctx.observed.existing:
        spec = render_service.headless_spec(ctx.world.gang.job)
        # The ranks of an ended job need no DNS names.
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
    if rejection := ctx.observed.rejections.get(policy):
        reason = Isolated.NameTaken if rejection.why is RejectionCause.TAKEN else Isolated.Refused
        return [Fact(reason, not_created(policy, rejection))]
    if ctx.world.gang.job in ctx.observed.isolation.policies:
        return [Fact(Isolated.Created)] if known else []
    removed = _describe_removal(ctx, policy)
    return [Fact(Isolated.Removed, removed)] if removed else []


def _budget_facts(ctx: Context) -> list[Fact]:
    known, wanted = find_condition(ctx.job.status, DrainsLimited), wanted_budgets(ctx.job)
    if ctx.job.status.ended or ctx.job.status.suspend_time:
        return []
    if not wanted:
        return [Fact(DrainsLimited.NotWanted)] if known else []
    for key in (budget_key(one.name) for one in wanted):
        for verb in ("get ", ""):
            rejection = ctx.observed.rejections.get(verb + key)
            # The budget of a deleted job with the same name will soon be gone.
            if rejection and rejection.why is not RejectionCause.TERMINATING:
                taken = rejection.why is RejectionCause.TAKEN
                reason = DrainsLimited.NameTaken if taken else DrainsLimited.Refused
                return [Fact(reason, not_created(key, rejection))]
    exist = all(ctx.observed.budgets.get(one.name) for one in wanted)
    return [Fact(DrainsLimited.Created)] if known and exist else []


def _describe_removal(ctx: Context, key: str) -> str:
    """Describe a missing object ("service/x") that was deleted repeatedly. Return "" if it was
    not.
    """
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
    return [server_fact(ctx)]


def server_fact(ctx: Context) -> Fact:
    """Return the condition that says whether the job's Redis server is ready, and if not, why."""
    name, observed = ctx.world.gang.server, ctx.observed
    if ctx.redis_is_ready:
        return Fact(BrokerReady.Ready, f"the job's Redis server {name} is Ready")
    # Rejections come first: as long as one object is missing, the state of the others does not
    # matter.
    for kind in REDIS_KINDS:
        if rejection := observed.rejections.get(f"{kind}/{name}"):
            message = not_created(f"{kind}/{name}", rejection)
            if kind == "pod":
                message = remedies.about_redis(message)
            return Fact(REASONS.get(rejection.why, BrokerReady.Refused), message)
    if ctx.redis_edits:
        return Fact(BrokerReady.ServiceChanged, describe_edit(name, ctx.redis_edits))
    pod = observed.unranked_pod(name)
    if pod is None and (due := paused_until(observed.creations.get(name), ctx.now)):
        return Fact(BrokerReady.NotRunning, f"pod {name} {lost_until(due)}")
    if pod is None or pod.deleting or f"service/{name}" not in observed.existing:
        return Fact(BrokerReady.Starting, f"pod and service {name} are being created")
    if complaint := pod.complaint or observed.warnings.get(pod.uid, ""):
        return Fact(BrokerReady.NotRunning, f"pod {name}: {complaint}")
    return Fact(BrokerReady.Starting, f"pod {name} is starting")


def describe_edit(name: str, fields: Iterable[str]) -> str:
    """Return the advice about a Service in which somebody has changed these fields."""
    return (
        f"service {name} was changed ({', '.join(fields)}), and the operator has no permission to"
        f" change services: delete the service (kubectl delete service {name}), and the operator"
        " re-creates it"
    )


def not_created(key: str, rejection: ApiRejection) -> str:
    """Return why a shared object ("service/x") could not be created. The object's name is added if
    the message does not contain it. Messages from webhooks may lack the name.
    """
    kind, _, name = key.partition("/")
    names_it = rejection.why not in FROM_API or f'"{name}"' in rejection.message
    return (
        rejection.message if names_it else f"{kind} {name} cannot be created: {rejection.message}"
    )


def describe_absence(ctx: Context) -> str:
    """Return why the job's own Redis server is not ready; "" if it is ready, or if the job has
    none.
    """
    return "" if ctx.redis_is_ready else server_fact(ctx).message
