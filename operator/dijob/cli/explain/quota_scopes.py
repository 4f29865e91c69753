"""Determines whether a pod matches the scopes of a ResourceQuota. No I/O.

A quota with scopes counts only some pods, for example those of a priority class.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dijob.core.render import quantities
from dijob.core.render.fields import as_mapping, objects_in

Body = Mapping[str, Any]

_QUALITY: Final = ("cpu", "memory")


def scopes_of(quota: Body) -> list[Body]:
    """Return the scopes of a quota's spec in the form of a scopeSelector."""
    selector = as_mapping(quota.get("scopeSelector"))
    plain = quota.get("scopes")
    named = [{"scopeName": name} for name in (plain if isinstance(plain, list) else [])]
    return [*named, *objects_in(selector.get("matchExpressions"))]


def contains(scopes: Sequence[Body], pod: Body) -> bool | None:
    """Return whether a pod with this spec matches all scopes; None if a scope is unknown."""
    found = [_is_in(scope, pod) for scope in scopes]
    return None if None in found else all(found)


def _is_in(scope: Body, pod: Body) -> bool | None:
    name = str(scope.get("scopeName"))
    if name == "PriorityClass":
        return _has_priority(scope, str(pod.get("priorityClassName") or ""))
    rule = _RULES.get(name)
    return rule(pod) if rule else None


def _has_priority(scope: Body, given: str) -> bool | None:
    values = scope.get("values") or ()
    return {
        "In": given in values,
        "NotIn": given not in values,
        "Exists": bool(given),
        "DoesNotExist": not given,
        # In the quota's field `scopes`, an entry is only a name, without a selector operator.
        "None": bool(given),
    }.get(str(scope.get("operator")))


def _is_best_effort(pod: Body) -> bool:
    amounts = {**quantities.pod_requests(pod), **quantities.pod_limits(pod)}
    return not any(amounts.get(name) for name in _QUALITY)


_RULES: Final[Mapping[str, Callable[[Body], bool]]] = {
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "Terminating": lambda pod: pod.get("activeDeadlineSeconds") is not None,
    "NotTerminating": lambda pod: pod.get("activeDeadlineSeconds") is None,
}
