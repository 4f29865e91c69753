"""What a pod was made from, in a word."""

import hashlib
import json

from dijob.api.spec import Spec


def fingerprint(spec: Spec) -> str:
    """A fingerprint of all that is immutable while the job runs: what a pod was made from can be compared with it.

    It covers the user's words only, never what this operator makes of them: a newer operator must not find that
    every running pod is out of date.
    """
    immutable = {"template", "parallel_workers", "topology", "launcher"}
    # Younger than the first pods, whose hash stays what it was: they count where they are not as they always were.
    young = ("runtime", "message_queue", "addressing", "engine_fields", "volumes", "group", "priority", "tasks")
    immutable |= {name for name in young if getattr(spec, name) != type(spec).model_fields[name].default}
    words = spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=immutable)
    if spec.tasks:
        words["tasks"][-1].pop("replicas")  # the one size that can be changed
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]
