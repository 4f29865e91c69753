"""What the schedulers of the engines read from pods and from their PodGroups."""

from collections.abc import Mapping
from typing import Any

from dijob import names
from dijob.core.observed.scheduling import scheduling_group
from dijob.core.render.scheduling import ENGINES, EngineRow


def group_of(pod: Mapping[str, Any]) -> str:
    """Return the name of the pod's PodGroup; "" if it has none."""
    meta = pod["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    return str(
        scheduling_group(pod["spec"])
        or annotations.get(names.VOLCANO_GROUP)
        or labels.get(names.COSCHEDULING_GROUP)
        or annotations.get(names.KAI_GROUP)
        or ""
    )


def row_of(group: Mapping[str, Any]) -> EngineRow:
    """Return the engine of this PodGroup."""
    full = f"{group['apiVersion']}/{group['kind']}"
    return next(row for row in ENGINES.values() if row.full_kind == full)


def needed_pods(group: Mapping[str, Any]) -> int:
    """Return how many pods the group needs."""
    return row_of(group).count(group["spec"])
