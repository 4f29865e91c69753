"""Explains why the API server rejects a pod.

This module suggests the correct name for an unknown field, and names the fields whose values are
not valid quantities. The API server's error only quotes the unknown name, and names no field for an
invalid quantity.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from dijob.cli.asked import suggest_quantity
from dijob.core.render.quantities import is_quantity
from dijob.names import GATE_CONTAINER, LAUNCHER_CONTAINER

_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"')
# A type in the generated models, such as V1Container or List[V1Container].
_MODEL: Final = re.compile(r"(?:List\[)?(V1\w+)\]?")


def with_names(message: str) -> str:
    """Extend an API error about a pod: suggest a known name for each unknown field."""
    hints = [
        f"{path}: did you mean {near}?"
        for path in _unknown_paths(message)
        if (near := nearest_field(path))
    ]
    return "; ".join([message.rstrip("."), *hints])


def describe_bad_quantities(pod: Mapping[str, Any]) -> list[str]:
    """Return a message for each invalid quantity in a pod's resource requests and limits.

    Containers that the operator adds are left out, because they copy the main container's requests.
    """
    return [
        f"{kind}[{position}].resources.{side}.{name}: {value} is not a quantity: write"
        f" {suggest_quantity(value)}"
        for kind in ("spec.initContainers", "spec.containers")
        for position, container in enumerate(pod["spec"].get(kind.removeprefix("spec.")) or ())
        if container["name"] not in (GATE_CONTAINER, LAUNCHER_CONTAINER)
        for side in ("requests", "limits")
        for name, value in ((container.get("resources") or {}).get(side) or {}).items()
        if isinstance(value, str) and not is_quantity(value)
    ]


def _unknown_paths(message: str) -> Sequence[str]:
    return list(dict.fromkeys(_UNKNOWN.findall(message)))


def nearest_field(path: str) -> str:
    """Return the known field that is most similar to the last name in the path, or ""."""
    # The generated models are large, and are needed only for this error.
    from kubernetes.aio.client import models

    *above, last = re.sub(r"\[\d+\]", "", path).split(".")
    model: Any = models.V1Pod
    for name in above:
        attributes = {known: attribute for attribute, known in model.attribute_map.items()}
        found = _MODEL.fullmatch(model.openapi_types.get(attributes.get(name, ""), ""))
        if found is None:
            return ""
        model = getattr(models, found[1])
    by_lower = {name.lower(): name for name in model.attribute_map.values()}
    close = get_close_matches(last.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else ""
