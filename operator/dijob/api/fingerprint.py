"""What a pod was made from, in a word."""

import hashlib
import json

from dijob.api.spec import Spec
from dijob.api.traits import Immutable, traits


def fingerprint(spec: Spec) -> str:
    """A fingerprint of the immutable fields: shows whether a pod was made from this spec.

    It covers the user's words only, never what this operator makes of them: a newer operator must
    not find that every running pod is out of date. For the same reason most fields count only where
    they differ from their default: pods that are older than the field keep their hash.
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
