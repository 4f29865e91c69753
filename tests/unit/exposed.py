"""The series that the operator exposes, with their labels, from the objects that make them."""

from collections.abc import Collection
from typing import Any

from dijob.shell import metrics

SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}


def _labels(name: str) -> Collection[str]:
    """The library gives labels of series that have samples only."""
    made: Any = metrics.REGISTRY._names_to_collectors.get(name)
    return getattr(made, "_labelnames", ())


def families() -> dict[str, set[str]]:
    """The labels of each metric, by the name that a counter has in the text and a histogram has
    without its suffix.
    """
    found = metrics.REGISTRY.collect()
    return {
        f"{each.name}_total" if each.type == "counter" else each.name: set(_labels(each.name))
        for each in found
    }


def series() -> dict[str, set[str]]:
    """The labels of each series, by its name in a query."""
    return {
        each.name + suffix: {*_labels(each.name), *(("le",) if suffix == "_bucket" else ())}
        for each in metrics.REGISTRY.collect()
        for suffix in SUFFIXES[each.type]
    }
