"""Reads NetworkPolicies, and compares their specs by a digest.

The specs themselves are compared, not an annotation with the operator's own hash. An edit of the
spec would not change such an annotation, and a tool that removes unknown annotations would cause
endless updates.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dijob.core.observed.parse import parse_child
from dijob.core.observed.views import Child


def parse_policy(body: Mapping[str, Any]) -> Child:
    """Read a NetworkPolicy."""
    return replace(parse_child(body), digest=spec_digest(body.get("spec") or {}))


def spec_digest(spec: Mapping[str, Any]) -> str:
    """Return a hash of a policy's spec. The spec that the operator sends and the spec that the API
    server stores have the same hash.
    """
    text = json.dumps(_canonical_value(spec), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical_value(value: Any, key: str = "") -> Any:
    """Normalize a spec as the API server does: without nulls, empty lists and empty matchLabels,
    and with the default protocol of ports. Other empty objects are meaningful and are kept: an
    empty selector selects everything.
    """
    if isinstance(value, list):
        return [_canonical_value(each, key) for each in value]
    if not isinstance(value, Mapping):
        return value
    given = {"protocol": "TCP", **value} if key == "ports" else value
    found = {name: _canonical_value(each, name) for name, each in given.items()}
    return {
        name: each
        for name, each in found.items()
        if each is not None and each != [] and not (name == "matchLabels" and not each)
    }
