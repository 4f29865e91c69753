"""JSON merge patches (RFC 7396)."""

from collections.abc import Mapping
from typing import Any


def merge_patch(was: Mapping[str, Any], becomes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that turns the object `was` into the object `becomes`. In a merge patch,
    None removes a key, and nested objects are merged and not replaced.
    """
    patch = dict[str, Any]((name, None) for name in was if name not in becomes)
    for name, value in becomes.items():
        before = was.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if below := merge_patch(before, value):
                patch[name] = below
        elif before != value:
            # Lists are replaced as a whole: a merge patch cannot change an element.
            patch[name] = value
    return patch
