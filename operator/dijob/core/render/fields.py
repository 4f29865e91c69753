"""Reads and extends fields of a pod that users have written in any form: what is none of theirs to
give is left as it is, and the apiserver refuses it by its name.
"""

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]


def more(given: Any, *added: Manifest) -> Any:
    """The user's list with ours after it; what is no list is left as it is."""
    return [*(given or ()), *added] if given is None or isinstance(given, list) else given


def objects(given: Any) -> list[Manifest]:
    """The objects of a list."""
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def mapping(given: Any) -> Mapping[str, Any]:
    """An object; {} where it is none."""
    return given if isinstance(given, dict) else {}


def field_variable(name: str, path: str) -> Manifest:
    """A variable that the kubelet takes from a field of the pod when it starts the container."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
