"""The fingerprint of what a pod was made from."""

import hashlib
import json

from dijob.api.spec import Spec
from dijob.api.traits import Immutable, traits


def fingerprint(spec: Spec) -> str:
    """A hash of the immutable fields: it shows whether a pod was made from this spec.

    It covers only what the user wrote, not what this operator makes of it: an upgrade must not
    mark every running pod as out of date. For the same reason most fields count only where they
    differ from their default: pods that are older than the field keep their hash.
    """
    counted = {
        name
        for name, trait in traits(Spec, Immutable).items()
        if trait.default_is_hashed or getattr(spec, name) != Spec.model_fields[name].default
    }
    words = spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=counted)
    if spec.tasks:
        words["tasks"][-1].pop("replicas")  # the one size that can be changed
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
