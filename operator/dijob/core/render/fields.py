"""Reads and extends fields of a pod template, which may have values of any type.

A value of the wrong type is passed on unchanged. Then the API server rejects it with the path of
the field, which explains more than an exception in the operator.
"""

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]


def extend_list(given: Any, *added: Manifest) -> Any:
    """Return the user's list followed by `added`; a value that is not a list is returned
    unchanged.
    """
    return [*(given or ()), *added] if given is None or isinstance(given, list) else given


def objects_in(given: Any) -> list[Manifest]:
    """Return the objects in a list; [] if the value is not a list."""
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def as_mapping(given: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, else {}."""
    return given if isinstance(given, dict) else {}


def field_variable(name: str, path: str) -> Manifest:
    """Return a variable that the kubelet reads from a field of the pod when it starts the
    container.
    """
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
