"""Kubernetes' quantities: "100m", "2Gi", "1e3"."""

import re
from collections.abc import Iterable, Mapping
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

Amounts = dict[str, Decimal]


def valid(text: str) -> bool:
    """Whether the apiserver takes it for a quantity."""
    return _VALID.fullmatch(text) is not None


def quantity(text: Any) -> Decimal:
    """The number that a quantity says; 0 for what is none, which the apiserver refuses by name."""
    word = str(text).strip()
    for suffix in (word[-2:], word[-1:]):
        if suffix in _FACTORS:
            return _number(word.removesuffix(suffix)) * _FACTORS[suffix]
    return _number(word)


def _number(text: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation:
        return Decimal(0)
    return found if found.is_finite() else Decimal(0)


def total(amounts: Iterable[Mapping[str, Decimal]]) -> Amounts:
    """The sum of each resource."""
    found: Amounts = {}
    for one in amounts:
        for name, value in one.items():
            found[name] = found.get(name, Decimal(0)) + value
    return found


def shown(name: str, value: Decimal) -> str:
    """An amount of a resource as people write it."""
    if name.rpartition(".")[2] in ("memory", "ephemeral-storage", "storage"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            if value >= _FACTORS[suffix]:
                return f"{_plain(round(value / _FACTORS[suffix], 1))}{suffix}"
        return _plain(value)
    if value != value.to_integral_value():
        return f"{_plain(round(value * 1000))}m"
    return _plain(value)


def listed(amounts: Mapping[str, Decimal]) -> str:
    """All amounts in one phrase: "cpu 100m, memory 512Mi"."""
    return ", ".join(f"{name} {shown(name, value)}" for name, value in sorted(amounts.items()))


def requests(spec: Mapping[str, Any]) -> Amounts:
    """What the scheduler counts of a pod's spec: its containers' requests in sum, or its largest
    init container's where that is more, and the overhead. A limit alone is a request too."""
    running = total(map(_of_container, _objects(spec.get("containers"))))
    for container in _objects(spec.get("initContainers")):
        asked = _of_container(container)
        if container.get("restartPolicy") == "Always":
            running = total([running, asked])
            continue
        for name, value in asked.items():
            running[name] = max(running.get(name, Decimal(0)), value)
    overhead = spec.get("overhead")
    return total([running, _amounts(overhead)])


def limits(spec: Mapping[str, Any]) -> Amounts:
    """The limits of a pod's containers in sum."""
    found = (container.get("resources") for container in _objects(spec.get("containers")))
    kept = (one.get("limits") for one in found if isinstance(one, Mapping))
    return total(map(_amounts, kept))


def _of_container(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(given: Any) -> Amounts:
    items = given.items() if isinstance(given, Mapping) else ()
    return {str(name): quantity(value) for name, value in items}


def _objects(given: Any) -> list[Mapping[str, Any]]:
    return [one for one in given or () if isinstance(one, Mapping)] if given else []


def _plain(value: Decimal | int) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
