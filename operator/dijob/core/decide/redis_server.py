"""Decides whether the job's own Redis server can be used.

No rank starts before it can, because a program that cannot connect to it fails after a while, and
the job would count that failure.
"""

from dijob.core.members import Gang
from dijob.core.observed.services import changed_fields
from dijob.core.observed.views import Observed
from dijob.core.render.redis import service_spec

# The kinds of its objects, as in the keys of rejections.
KINDS = ("networkpolicy", "service", "pod")


def is_ready(gang: Gang, observed: Observed) -> bool:
    """Whether the server can be reached; also if the job has none. As long as one of its objects is
    rejected or changed, it counts as missing.
    """
    name = gang.server
    if not name:
        return True
    rejected = any(f"{kind}/{name}" in observed.refusals for kind in KINDS)
    pod, service = observed.unranked_pod(name), f"service/{name}" in observed.existing
    runs = pod is not None and pod.ready and not pod.deleting
    return not rejected and service and runs and not changed_service(gang, observed)


def changed_service(gang: Gang, observed: Observed) -> tuple[str, ...]:
    """Return the fields in which somebody has changed its Service."""
    port = gang.redis[1] if gang.redis else 0
    return changed_fields(observed, gang.server, service_spec(gang.job, port))
