"""Decides which pods need a gate: an init container that waits for the peer list.

In all other pods, the launcher waits in the main container, and gets the list from the operator's
channel. Such a pod has one fewer container, and needs no write to the API server
(docs/decisions/049).
"""

from collections.abc import Mapping
from typing import Any

from dijob.api.model import DIJob
from dijob.core.members import GangMember, gang_of
from dijob.core.render import variables
from dijob.core.render.fields import Manifest, as_mapping, objects_in
from dijob.names import Addressing


def needs_gate(job: DIJob, spec: Manifest, main: Manifest, member: GangMember) -> bool:
    """Whether the containers of this pod must not start before the peer list is known.

    The kubelet's probes and hooks apply to the program, so they must not run while the launcher
    waits. Sidecars may need the list, too. Variables to which the template refers are substituted
    by the kubelet when it starts the container. If the job has a Service, the gate checks the
    Service's DNS records. On the host network, the launcher has no separate port for the readiness
    probe.
    """
    return (
        job.addressing is Addressing.HOSTNAME
        or job.wants_service
        or bool(spec.get("hostNetwork"))
        or len(objects_in(spec.get("containers"))) > 1
        or any(map(_is_watched, objects_in(spec.get("containers"))))
        or bool(variables.from_fields(main, gang_of(job), member, launched=True))
    )


def _is_watched(container: Mapping[str, Any]) -> bool:
    """Whether the kubelet runs a hook when the container starts, or kills the container if a probe
    fails.
    """
    hook = as_mapping(container.get("lifecycle")).get("postStart")
    return bool(hook or container.get("livenessProbe") or container.get("startupProbe"))
