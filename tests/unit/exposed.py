"""The series that the operator exposes, with their labels, from the metric objects."""

from collections.abc import Collection
from typing import Any

from dijob.controller import metrics
from prometheus_client import CollectorRegistry

SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
    "gauge": ("",),
}


def _labels(name: str, registry: CollectorRegistry = metrics.REGISTRY) -> Collection[str]:
    """Return a metric's label names. The samples have labels only for series that exist already."""
    made: Any = registry._names_to_collectors.get(name)
    return getattr(made, "_labelnames", ())


def families() -> dict[str, set[str]]:
    """Return the labels of each metric by name: with the suffix `_total` for counters, and without
    a suffix for histograms.
    """
    found = metrics.REGISTRY.collect()
    return {
        f"{each.name}_total" if each.type == "counter" else each.name: set(_labels(each.name))
        for each in found
    }


def series(registry: CollectorRegistry = metrics.REGISTRY) -> dict[str, set[str]]:
    """Return the labels of each series by its name in a query."""
    return {
        each.name + suffix: {
            *_labels(each.name, registry),
            *(("le",) if suffix == "_bucket" else ()),
        }
        for each in registry.collect()
        for suffix in SUFFIXES[each.type]
    }
