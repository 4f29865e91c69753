"""`python docs/site/lookup.py` generates docs/metrics.md from the registries of the operator, the
server and the history, and docs/chart-values.md from the chart's schema and defaults. `--check`
reports pages that are out of date.
"""

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from dijob.controller import metrics as operator
from dijob.crd.pages import settle_pages
from dijob.history import metrics as history
from dijob.server import metrics as server
from prometheus_client import CollectorRegistry, Metric

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts/dijob"
Json = Mapping[str, Any]

_METRICS: Final = """# Metrics

Generated from the code (`metrics.py` in `controller`, `history`, `kube` and `server`, below
`operator/dijob`)
by `make crds`; do not edit.

[Operations](operations.md#metrics) describes where the metrics are served and how to read them. It
also describes the dashboard and the alerts. A histogram has series that end in `_bucket`, `_sum`
and `_count`; the type column shows the first and the last bound of its buckets.

## The operator's

{operator}
The metrics that begin with `process_` are the standard ones of Prometheus' client libraries.

## The HTTP server's

{server}
## The history's

{history}
## Values of labels

If the values of a label are known in advance, the series exist from the start with the value 0:

{values}"""

_VALUES: Final = """# Values of the chart

Generated from `values.schema.json` and `values.yaml` in `charts/dijob` by `make crds`; do not edit.

`helm install` and `helm upgrade` reject a name that is not in this table, and a value of the wrong
type. The error names the value. `helm show values charts/dijob` prints all values, with comments
that explain some of them in more detail.

| value | type | default | meaning |
|---|---|---|---|
{rows}"""


def metrics() -> str:
    """The page about metrics."""
    return _METRICS.format(
        operator=_table(operator.REGISTRY),
        server=_table(server.REGISTRY),
        history=_table(history.REGISTRY),
        values="".join(_known(operator.REGISTRY)),
    )


def _table(registry: CollectorRegistry) -> str:
    rows = (
        f"| `{_name(metric)}` | {', '.join(f'`{each}`' for each in _labels(registry, metric))} |"
        f" {metric.type}{_bounds(registry, metric)} | {metric.documentation} |\n"
        for metric in sorted(registry.collect(), key=_name)
    )
    head = "| series | labels | type | meaning |\n|---|---|---|---|\n"
    return head + "".join(rows)


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _collector(registry: CollectorRegistry, metric: Metric) -> Any:
    """Return the collector of a metric. The public API shows labels only for series that have
    samples.
    """
    return registry._names_to_collectors.get(metric.name)


def _labels(registry: CollectorRegistry, metric: Metric) -> Collection[str]:
    # The label names are only in a private attribute. A metric without samples shows them nowhere
    # else.
    return getattr(_collector(registry, metric), "_labelnames", ())


def _bounds(registry: CollectorRegistry, metric: Metric) -> str:
    """The first and the last finite bound of a histogram."""
    if metric.type != "histogram":
        return ""
    bounds = _collector(registry, metric)._upper_bounds
    return f", {bounds[0]:g} to {bounds[-2]:g}"


def _known(registry: CollectorRegistry) -> Iterator[str]:
    for metric in sorted(registry.collect(), key=_name):
        # Only counters are created with all known label values, so that a rate begins at 0.
        if metric.type != "counter" or metric.name.startswith("process_"):
            continue
        found: dict[str, dict[str, None]] = {}
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                for label, value in sample.labels.items():
                    found.setdefault(label, {})[value] = None
        for label, values in found.items():
            yield f"- `{_name(metric)}`, `{label}`: {', '.join(f'`{value}`' for value in values)}\n"


def chart_values() -> str:
    """The page about the chart's values."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = (
        f"| **{path}** | | | {_linked(part)} |\n"
        if _named(part)
        else f"| `{path}` | {_type(part)} | {_shown(_at(defaults, path))} | {_linked(part)} |\n"
        for path, part in _parts(schema)
        # Helm's own value, which the chart does not use.
        if path != "global"
    )
    return _VALUES.format(rows="".join(rows))


def _parts(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield each value of the schema with its dotted path, a group before its values."""
    for name, part in schema["properties"].items():
        inner = f"{path}.{name}" if path else name
        yield inner, part
        if _named(part):
            yield from _parts(part, inner)


def _named(part: Json) -> bool:
    """Whether the value is a group with values that the chart itself names."""
    return bool(part.get("properties", {}).keys() - {"requests", "limits"})


def _at(values: Json, path: str) -> Any:
    node: Any = values
    for name in path.split("."):
        node = node[name]
    return node


def _type(part: Json) -> str:
    if "enum" in part:
        return ", ".join(f"`{one}`" for one in part["enum"])
    least, most = part.get("minimum"), part.get("maximum")
    if least is not None and most is not None:
        return f"{part['type']}, {least} to {most}"
    return str(part["type"]) + (f", at least {least}" if least is not None else "")


def _shown(value: Any) -> str:
    """Return a default as one line of YAML; "" for an empty string."""
    if value == "":
        return ""
    # One line, because it is a table cell.
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000).strip()
    return f"`{text.removesuffix('...').strip()}`"


def _linked(part: Json) -> str:
    """Return the description of a value, with links to the pages that it names."""
    text = str(part["description"])
    for page in ("docs/operations.md#alerts", "docs/server.md"):
        text = text.replace(f"({page})", f"([more]({page.removeprefix('docs/')}))")
    return text


def main() -> int:
    """Write or check the pages. Return 1 if --check finds a page out of date."""
    pages = {"docs/metrics.md": metrics(), "docs/chart-values.md": chart_values()}
    return settle_pages("python docs/site/lookup.py", str(__doc__), pages)


if __name__ == "__main__":
    sys.exit(main())
