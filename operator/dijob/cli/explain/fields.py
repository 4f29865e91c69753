"""The name that was meant by a field of a pod that the apiserver does not know."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final

_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"')
# As in List[V1Container].
_ITEM: Final = re.compile(r"(?:List\[)?(V1\w+)\]?")


def with_names(message: str) -> str:
    """An API error about a pod, with the nearest known name of each unknown field."""
    hints = [f"{path}: did you mean {near}?" for path in _paths(message) if (near := nearest(path))]
    return "; ".join([message.rstrip("."), *hints])


def _paths(message: str) -> Sequence[str]:
    return list(dict.fromkeys(_UNKNOWN.findall(message)))


def nearest(path: str) -> str:
    """The known field that is nearest to the last name of a path in a pod; "" for none."""
    # The generated models are as large as the whole client.
    from kubernetes.aio.client import models

    *above, last = re.sub(r"\[\d+\]", "", path).split(".")
    model: Any = models.V1Pod
    for name in above:
        attributes = {known: attribute for attribute, known in model.attribute_map.items()}
        found = _ITEM.fullmatch(model.openapi_types.get(attributes.get(name, ""), ""))
        if found is None:
            return ""
        model = getattr(models, found[1])
    by_lower = {name.lower(): name for name in model.attribute_map.values()}
    close = get_close_matches(last.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else ""
