"""Reads the resource use of a job's programs from the metrics API, if the cluster serves it.

The API is optional, and users may lack the permission to read it. It never reports the
use of GPUs. With `measure`, the missing values are measured in the pods (measured.py). A
measurement requires permission to run commands in the pods, and appears in the audit log. So
`measure` is off by default.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from dijob import names
from dijob.client import AsyncClient, DijobError, RankPod
from dijob.client.connection import ClientRequest
from dijob.core.render.quantities import Amounts, format_amount, parse_quantity

from dijob_extras.ui.measured import GpuUse, Measurement, compute_use, measure_ranks

# metrics-server measures every 15 s.
_EVERY_SECONDS: Final = 15.0
_LABELS: Final = {"cpu": "CPU", "memory": "memory"}


@dataclass(frozen=True)
class Use:
    """What a container uses: CPUs, memory in bytes, and GPUs."""

    amounts: Amounts = field(default_factory=dict)
    gpus: tuple[GpuUse, ...] = ()


# The keys have the form `POD/CONTAINER`.
Usage = dict[str, Use]


async def poll_usage(client: AsyncClient, name: str, usage: Usage, measure: bool = False) -> None:
    """Keep `usage` up to date until the task is canceled."""
    before: Mapping[str, Measurement] = {}
    while True:
        known = await _ask_metrics(client, name)
        if measure:
            now, pods = await _measure(client, name)
            known = add_measured(known, pods, now, before)
            before = now
        usage.clear()
        usage.update(known)
        await asyncio.sleep(_EVERY_SECONDS)


async def _ask_metrics(client: AsyncClient, name: str) -> Usage:
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{client.namespace}/pods"
    query = (("labelSelector", f"{names.LABEL_JOB}={name}"),)
    try:
        answer = await client.connection.json(ClientRequest("GET", path, query=query))
    except DijobError:
        return {}
    return read_usage(answer.get("items") or ())


async def _measure(
    client: AsyncClient, name: str
) -> tuple[Mapping[str, Measurement], Sequence[RankPod]]:
    try:
        pods = await client.pods(name)
        return await measure_ranks(client, pods), pods
    except DijobError:
        return {}, ()


def add_measured(
    known: Usage,
    pods: Sequence[RankPod],
    now: Mapping[str, Measurement],
    before: Mapping[str, Measurement],
) -> Usage:
    """Return the usage from the metrics API (`known`) together with the measurements of each pod.
    `now` and `before` contain the measurements by pod name. The API's numbers take precedence,
    because `kubectl top` shows the same numbers.
    """
    found = dict(known)
    for pod in pods:
        if (one := now.get(pod.name)) is None:
            continue
        key = f"{pod.name}/{pod.container}"
        amounts = known[key].amounts if key in known else compute_use(one, before.get(pod.name))
        found[key] = Use(amounts, one.gpus)
    return found


def read_usage(items: Iterable[Mapping[str, Any]]) -> Usage:
    """Return the usage of each container from objects of the metrics API."""
    found: Usage = {}
    for item in items:
        pod = (item.get("metadata") or {}).get("name")
        for one in item.get("containers") or ():
            given = one.get("usage") or {}
            amounts = {kind: parse_quantity(given[kind]) for kind in _LABELS if kind in given}
            found[f"{pod}/{one.get('name')}"] = Use(amounts)
    return found


def describe_use(pod: RankPod, usage: Usage) -> str:
    """Return what the main container uses and what it requests; "" if the use is unknown."""
    used = usage.get(f"{pod.name}/{pod.container}", Use())
    texts = [_describe_one(kind, value, pod) for kind, value in used.amounts.items()]
    return ", ".join([*texts, *_describe_gpus(used.gpus)])


def _describe_gpus(gpus: Sequence[GpuUse]) -> Iterator[str]:
    for number, one in enumerate(gpus):
        name = f"GPU {number}" if len(gpus) > 1 else "GPU"
        used, total = (format_amount("memory", value) for value in (one.memory, one.of))
        yield f"{name} {one.busy} %, {used} of {total}"


def _describe_one(kind: str, value: Decimal, pod: RankPod) -> str:
    containers = pod.body.get("spec", {}).get("containers", ())
    found = (one for one in containers if one.get("name") == pod.container)
    main: Mapping[str, Any] = next(found, {})
    resources = main.get("resources") or {}
    given = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    # The amounts are rounded, because the API reports nanocores and kibibytes.
    text = f"{_LABELS[kind]} {format_amount(kind, round(value, 2 if kind == 'cpu' else 0))}"
    return (
        f"{text} of {format_amount(kind, parse_quantity(given[kind]))}" if kind in given else text
    )
