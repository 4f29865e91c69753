"""Parses and adds Kubernetes quantities such as "100m", "2Gi" and "1e3"."""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

_FACTORS: Final = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    "m": Decimal("0.001"),
    "u": Decimal("1e-6"),
    "n": Decimal("1e-9"),
}

_VALID: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)

# `_LARGEST` is the largest quantity that Kubernetes stores. Values below 1e-30 are treated as 0:
# the exact sum of 1 and 1e-999999 has a million digits, and a tenant could write such a quantity.
_LARGEST: Final = Decimal(2**63 - 1)
_SMALLEST: Final = -30

Amounts = dict[str, Decimal]


def is_quantity(text: str) -> bool:
    """Whether the API server accepts the text as a quantity."""
    return _VALID.fullmatch(text) is not None


def parse_quantity(text: Any) -> Decimal:
    """Return the value of a quantity, or 0 if it is invalid.

    The API server reports invalid quantities.
    """
    word = str(text).strip()
    for suffix in (word[-2:], word[-1:]):
        if suffix in _FACTORS:
            return _parse_number(word.removesuffix(suffix)) * _FACTORS[suffix]
    return _parse_number(word)


def _parse_number(text: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return Decimal(0)
    if not found.is_finite() or found.adjusted() < _SMALLEST:
        return Decimal(0)
    return max(-_LARGEST, min(_LARGEST, found))


def add_amounts(amounts: Iterable[Mapping[str, Decimal]]) -> Amounts:
    """Add up amounts by resource."""
    found: Amounts = {}
    for one in amounts:
        for name, value in one.items():
            found[name] = found.get(name, Decimal(0)) + value
    return found


def format_amount(name: str, value: Decimal) -> str:
    """Return a human-readable amount of a resource: bytes in units such as Gi, fractions in m."""
    if name.rpartition(".")[2] in ("memory", "ephemeral-storage", "storage"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            if value >= _FACTORS[suffix]:
                return f"{_format_number(round(value / _FACTORS[suffix], 1))}{suffix}"
        return _format_number(value)
    if value != value.to_integral_value():
        return f"{_format_number(round(value * 1000))}m"
    return _format_number(value)


def exact_quantity(value: Decimal) -> str:
    """Return the value as a Kubernetes quantity, without rounding and without a unit."""
    return _format_number(value)


def format_amounts(amounts: Mapping[str, Decimal]) -> str:
    """Format several amounts: "cpu 100m, memory 512Mi"."""
    return ", ".join(
        f"{name} {format_amount(name, value)}" for name, value in sorted(amounts.items())
    )


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """Return the requests of a pod as the scheduler counts them, including the pod's overhead.

    A limit without a request is also the request (k8s.io/component-helpers/resource: PodRequests).
    """
    found = _of_pod(spec, _of_container)
    # Pod-level resources (KEP-2837) replace the sum of the containers' resources.
    level = _read_resources(spec)
    for name, value in _parse_amounts(level.get("limits")).items():
        found.setdefault(name, value)
    found |= _parse_amounts(level.get("requests"))
    return add_amounts([found, _parse_amounts(spec.get("overhead"))])


def pod_limits(spec: Mapping[str, Any]) -> Amounts:
    """Return the limits of a pod as a quota counts them."""
    found = _of_pod(
        spec, lambda container: _parse_amounts(_read_resources(container).get("limits"))
    )
    return found | _parse_amounts(_read_resources(spec).get("limits"))


def _of_pod(spec: Mapping[str, Any], amounts: Callable[[Mapping[str, Any]], Amounts]) -> Amounts:
    """Return the largest amount that a pod's containers need at any time.

    Init containers run one after the other, each together with the sidecars before it. Afterwards
    all containers run together with all sidecars.
    """
    sidecars, most = Amounts(), Amounts()
    for container in _only_mappings(spec.get("initContainers")):
        now = add_amounts([sidecars, amounts(container)])
        if container.get("restartPolicy") == "Always":
            sidecars = now
        most = _larger_amounts(most, now)
    running = [*map(amounts, _only_mappings(spec.get("containers"))), sidecars]
    return _larger_amounts(most, add_amounts(running))


def _larger_amounts(first: Amounts, second: Amounts) -> Amounts:
    return {
        name: max(first.get(name, Decimal(0)), second.get(name, Decimal(0)))
        for name in first | second
    }


def _read_resources(given: Mapping[str, Any]) -> Mapping[str, Any]:
    found = given.get("resources")
    return found if isinstance(found, Mapping) else {}


def _of_container(container: Mapping[str, Any]) -> Amounts:
    resources = _read_resources(container)
    return {**_parse_amounts(resources.get("limits")), **_parse_amounts(resources.get("requests"))}


def _parse_amounts(given: Any) -> Amounts:
    items = given.items() if isinstance(given, Mapping) else ()
    return {str(name): parse_quantity(value) for name, value in items}


def _only_mappings(given: Any) -> list[Mapping[str, Any]]:
    return [one for one in given or () if isinstance(one, Mapping)] if given else []


def _format_number(value: Decimal | int) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
