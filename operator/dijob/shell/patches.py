"""JSON merge patches (RFC 7396)."""

from collections.abc import Mapping
from typing import Any


def merge_patch(was: Mapping[str, Any], becomes: Mapping[str, Any]) -> dict[str, Any]:
    """The patch from one object to the other. None removes a field. Objects are merged, so None
    stands for each missing key.
    """
    patch = dict[str, Any]((name, None) for name in was if name not in becomes)
    for name, value in becomes.items():
        before = was.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if below := merge_patch(before, value):
                patch[name] = below
        elif before != value:
            patch[name] = value
    return patch
