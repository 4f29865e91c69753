"""What is said of the job's own Redis server, and why nobody can begin without it."""

from datetime import datetime

from dijob.core.members import Gang
from dijob.core.observed import advice
from dijob.core.observed.creations import lost_until, paused_until
from dijob.core.observed.views import Observed, Refusal, Refused
from dijob.core.report.summary import Fact
from dijob.reasons import BrokerReady

# What it is made of, by the names that refusals have.
KINDS = ("networkpolicy", "service", "pod")
# Refusals in the API server's words; the others are in the operator's own.
FROM_API = (Refused.REJECTED, Refused.FORBIDDEN, Refused.UNAVAILABLE)
# Why one of them could not be had, where that is not the apiserver's no.
REASONS = {Refused.TAKEN: BrokerReady.NameTaken, Refused.OUTDATED: BrokerReady.OtherPort}


def fact(gang: Gang, observed: Observed, now: datetime) -> Fact:
    """Whether the job's server can be used, and if not, why."""
    name = gang.server
    for kind in KINDS:
        if refusal := observed.refusals.get(f"{kind}/{name}"):
            words = not_created(f"{kind}/{name}", refusal)
            if kind == "pod":
                words = advice.about_redis(words)
            return Fact(REASONS.get(refusal.why, BrokerReady.Refused), words)
    pod = observed.unranked_pod(name)
    if pod is None and (due := paused_until(observed.creations.get(name), now)):
        return Fact(BrokerReady.NotRunning, f"pod {name} {lost_until(due)}")
    if pod is None or pod.deleting or f"service/{name}" not in observed.existing:
        return Fact(BrokerReady.Starting, f"pod and service {name} are being created")
    if pod.ready:
        return Fact(BrokerReady.Ready, f"the job's Redis server {name} is Ready")
    if said := pod.complaint or observed.warnings.get(pod.uid, ""):
        return Fact(BrokerReady.NotRunning, f"pod {name}: {said}")
    return Fact(BrokerReady.Starting, f"pod {name} is starting")


def not_created(key: str, refusal: Refusal) -> str:
    """Why a shared object ("service/x") could not be created. A webhook's words may not say what
    they are about.
    """
    kind, _, name = key.partition("/")
    names_it = refusal.why not in FROM_API or f'"{name}"' in refusal.message
    return refusal.message if names_it else f"{kind} {name} cannot be created: {refusal.message}"


def absence(gang: Gang, observed: Observed, now: datetime) -> str:
    """Why nobody can begin yet: the job has a server, and it cannot be used. "" where that is not
    so.
    """
    if not gang.server:
        return ""
    found = fact(gang, observed, now)
    return "" if found.reason.entry.status else found.message
