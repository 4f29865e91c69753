"""What is said of the job's own Redis server, and why nobody can begin without it."""

from dijob.core.members import Gang
from dijob.core.observed.views import Observed, Refused
from dijob.core.report.summary import Fact
from dijob.names import Condition as Type

# What it is made of, by the names that refusals have.
KINDS = ("networkpolicy", "service", "pod")


def fact(gang: Gang, observed: Observed) -> Fact:
    """Whether the job's server can be used, and if not, why."""
    name = gang.server
    for kind in KINDS:
        if refusal := observed.refusals.get(f"{kind}/{name}"):
            reason = "NameTaken" if refusal.why is Refused.TAKEN else "Refused"
            return Fact(Type.BROKER_READY, False, reason, refusal.message)
    pod = observed.stranger(name)
    if pod is None or pod.deleting or f"service/{name}" not in observed.existing:
        return Fact(Type.BROKER_READY, False, "Starting", f"pod and service {name} are being created")
    if pod.ready:
        return Fact(Type.BROKER_READY, True, "Ready", f"the job's Redis server is {name}")
    if said := pod.complaint or observed.warnings.get(pod.uid, ""):
        return Fact(Type.BROKER_READY, False, "NotRunning", f"pod {name}: {said}")
    return Fact(Type.BROKER_READY, False, "Starting", f"pod {name} is starting")


def absence(gang: Gang, observed: Observed) -> str:
    """Why nobody can begin yet: the job has a server, and it cannot be used. "" where that is not so."""
    if not gang.server:
        return ""
    now = fact(gang, observed)
    return "" if now.status else now.message
