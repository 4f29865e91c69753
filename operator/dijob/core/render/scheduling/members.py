"""What the engines with a `minMember` have in common (Volcano, Coscheduling, KAI)."""

from typing import Final

from dijob.api.model import DIJob
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest
from dijob.core.render.scheduling.row import Spec

KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"


def pod_group(job: DIJob, api: str, name: str, spec: Manifest) -> Manifest:
    """Return the job's PodGroup in this API version."""
    meta = {**metadata.of_service(job), "name": name}
    return {"apiVersion": api, "kind": KIND, "metadata": meta, "spec": spec}


def min_member(count: int) -> Manifest:
    """Return the part of the spec that sets the number of pods."""
    return {"minMember": count}


def counted(spec: Spec) -> int:
    """Return the number of pods that a PodGroup needs."""
    return int(spec.get("minMember") or 0)
