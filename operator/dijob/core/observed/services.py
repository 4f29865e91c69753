"""Reads Services, and compares the pods and ports that they target with the operator's spec.

It is not sufficient that a Service exists, because somebody may have edited its spec. Without the
comparison, nothing would be reported until a rank looks up the name of another rank and does not
find it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dijob.core.observed.parse import parse_child
from dijob.core.observed.views import Child, Observed, Route

# Unlike all other Services, a Service of this type has no pods behind it.
_EXTERNAL = "ExternalName"


def parse_service(body: Mapping[str, Any]) -> Child:
    """Read a Service."""
    return replace(parse_child(body), route=service_route(body.get("spec") or {}))


def service_route(spec: Mapping[str, Any]) -> Route:
    """Return the pods and ports that a Service targets. The result is the same for the spec that
    the operator sends and for the spec that the API server stores.
    """
    headless = spec.get("clusterIP") == "None"
    ports = ((one.get("port"), one.get("targetPort")) for one in spec.get("ports") or ())
    return Route(
        selector=frozenset((spec.get("selector") or {}).items()),
        headless=headless,
        external=spec.get("type") == _EXTERNAL,
        unready=bool(spec.get("publishNotReadyAddresses")),
        # The names of a headless Service resolve to the pods themselves, so its ports do not
        # matter. If targetPort is not set, the apiserver sets it to the value of `port`.
        ports=frozenset() if headless else frozenset((one, to or one) for one, to in ports),
    )


def changed_fields(observed: Observed, name: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields in which a Service differs from the spec that the operator creates it with.

    Return () if there are none, or if the Service does not exist.
    """
    found = observed.routes.get(name)
    return found.differs_from(service_route(spec)) if found else ()
