"""The fingerprint of the part of a spec from which the pods are created."""

import hashlib
import json

from dijob.api.spec import Spec
from dijob.api.traits import Immutable, traits_by_field


def spec_fingerprint(spec: Spec) -> str:
    """Return a hash of the immutable fields, which shows whether a pod was created from this spec.

    The hash covers what the user wrote, not the pod that the operator makes of it. Otherwise an
    upgrade of the operator would mark every running pod as outdated. For the same reason most
    fields are hashed only if they differ from their default: a pod that is older than the field
    keeps its hash.
    """
    counted = {
        name
        for name, trait in traits_by_field(Spec, Immutable).items()
        if trait.default_is_hashed or getattr(spec, name) != Spec.model_fields[name].default
    }
    written = spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=counted)
    if spec.tasks:
        # The last task can be scaled while the job runs. Its size must not mark its pods as
        # outdated.
        written["tasks"][-1].pop("replicas")
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:16]
