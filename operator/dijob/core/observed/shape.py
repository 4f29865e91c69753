"""The shape of a pod's containers: the parts of their spec that, if changed, restart a container.

The kubelet restarts a container, regardless of the pod's restartPolicy, if its image is changed. It
also does so if the container's CPU or memory is resized and its resizePolicy is RestartContainer.
Afterwards the status does not show why the container ended: the condition PodResizeInProgress is
gone, and events are neither complete nor kept. (Observed with 1.37; in-place resize has been
enabled by default since 1.33.) So each pod carries the shape that its containers started with. A
restart with a different shape is not counted as a failure.
"""

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]

# The maximum length of the field in status.restartsSeen; a longer shape is not recorded.
LONGEST = 1024
DIGITS = 8


def shape_of(spec: Body, uncounted: frozenset[str], status: Body) -> str:
    """Return the fingerprints of a pod's containers, in the order of the pod's spec. This order
    cannot change. The `uncounted` containers are left out, because their terminations are never
    failures.

    Return "" (unknown) while the node has no capacity for a resize: the spec has already changed,
    but the kubelet has not restarted the container yet.
    """
    if any(
        c.get("type") == "PodResizePending" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    ):
        return ""
    found = ",".join(
        _container_fingerprint(c)
        for c in spec.get("containers") or ()
        if c.get("name") not in uncounted
    )
    return sys.intern(found) if len(found) <= LONGEST else ""


def split_shape(shape: str) -> list[str]:
    """Return the fingerprint of each container; [] if the shape is unknown."""
    return shape.split(",") if shape else []


def _container_fingerprint(container: Body) -> str:
    restarts = {
        policy.get("resourceName")
        for policy in container.get("resizePolicy") or ()
        if policy.get("restartPolicy") == "RestartContainer"
    }
    resources = container.get("resources") or {}
    amounts = [
        [(kind, name, str(amount)) for name, amount in sorted((resources.get(kind) or {}).items())]
        for kind in ("requests", "limits")
    ]
    restarting = [one for kind in amounts for one in kind if one[1] in restarts]
    text = json.dumps([container.get("image") or "", restarting])
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
