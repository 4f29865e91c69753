"""Reports the state of the job's own Redis server."""

from collections.abc import Iterable

from dijob.core.decide.context import REDIS_KINDS, Context
from dijob.core.facts import Fact
from dijob.core.observed import remedies
from dijob.core.observed.creations import lost_until, paused_until
from dijob.core.observed.views import ApiRejection, RejectionCause
from dijob.reasons import BrokerReady

# Rejections whose message is the API error. The operator writes the messages of the others.
FROM_API = (RejectionCause.REJECTED, RejectionCause.FORBIDDEN, RejectionCause.UNAVAILABLE)
# The reasons of rejections that do not come from the API server.
REASONS = {
    RejectionCause.TAKEN: BrokerReady.NameTaken,
    RejectionCause.OUTDATED: BrokerReady.OtherPort,
}


def server_fact(ctx: Context) -> Fact:
    """Return whether the job's server is ready, and if not, why."""
    name, observed = ctx.world.gang.server, ctx.observed
    if ctx.redis_is_ready:
        return Fact(BrokerReady.Ready, f"the job's Redis server {name} is Ready")
    # Rejections come first: as long as one object is missing, the state of the others is no help.
    for kind in REDIS_KINDS:
        if refusal := observed.refusals.get(f"{kind}/{name}"):
            message = not_created(f"{kind}/{name}", refusal)
            if kind == "pod":
                message = remedies.about_redis(message)
            return Fact(REASONS.get(refusal.why, BrokerReady.Refused), message)
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
    """Return what to do about a Service of which these fields were changed."""
    return (
        f"service {name} was changed ({', '.join(fields)}), and the operator has no permission to"
        " change services: delete it, and the operator re-creates it (kubectl delete service"
        f" {name})"
    )


def not_created(key: str, refusal: ApiRejection) -> str:
    """Return why a shared object ("service/x") could not be created. The object is named unless
    the message names it: the message of a webhook may not.
    """
    kind, _, name = key.partition("/")
    names_it = refusal.why not in FROM_API or f'"{name}"' in refusal.message
    return refusal.message if names_it else f"{kind} {name} cannot be created: {refusal.message}"


def describe_absence(ctx: Context) -> str:
    """Return why the job's own server is not ready; "" if it is, or if the job has none."""
    return "" if ctx.redis_is_ready else server_fact(ctx).message
