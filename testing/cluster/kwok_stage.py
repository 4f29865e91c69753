"""Builds stages for kwok: what happens to an object in a certain state."""

from collections.abc import Mapping
from typing import Any

Match = dict[str, Any]  # one expression of a stage's selector


def stage(
    kind: str, name: str, when: list[Match], then: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            "next": dict(then),
            **more,
        },
    }
