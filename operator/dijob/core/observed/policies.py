"""NetworkPolicies as the API server shows them.

Their specs are compared, not a mark that the operator leaves on them: an edit of the spec would
leave such a mark as it is, and something may take the mark away.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dijob.core.observed.parse import child
from dijob.core.observed.views import Child


def policy(body: Mapping[str, Any]) -> Child:
    """Read a NetworkPolicy."""
    return replace(child(body), digest=digest(body.get("spec") or {}))


def digest(spec: Mapping[str, Any]) -> str:
    """A hash of a policy's spec: the same for what was sent and for what the API server shows."""
    text = json.dumps(_canonical(spec), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical(value: Any, key: str = "") -> Any:
    """Without lists, nulls and maps of labels that are empty, which the API server leaves out, and
    with the protocol that it adds to a port. Other empty objects mean something: a selector selects
    all.
    """
    if isinstance(value, list):
        return [_canonical(each, key) for each in value]
    if not isinstance(value, Mapping):
        return value
    given = {"protocol": "TCP", **value} if key == "ports" else value
    found = {name: _canonical(each, name) for name, each in given.items()}
    return {
        name: each
        for name, each in found.items()
        if each is not None and each != [] and not (name == "matchLabels" and not each)
    }
