"""Reads what the programs of a job use, from the metrics API if the cluster serves it.

The API is optional, and users may lack the permission to read it. The page then shows no usage.
"""

import asyncio
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from dijob import names
from dijob.client import AsyncClient, DijobError, RankPod
from dijob.client.connection import ClientRequest
from dijob.core.render.quantities import Amounts, format_amount, parse_quantity

# metrics-server measures once in 15 s.
_EVERY_SECONDS: Final = 15.0
_LABELS: Final = {"cpu": "CPU", "memory": "memory"}

Usage = dict[str, Amounts]


async def poll_usage(client: AsyncClient, name: str, usage: Usage) -> None:
    """Keep `usage` up to date until the task is canceled."""
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{client.namespace}/pods"
    query = (("labelSelector", f"{names.LABEL_JOB}={name}"),)
    while True:
        try:
            answer = await client.connection.json(ClientRequest("GET", path, query=query))
            known = read_usage(answer.get("items") or ())
        except DijobError:
            known = {}
        usage.clear()
        usage.update(known)
        await asyncio.sleep(_EVERY_SECONDS)


def read_usage(items: Iterable[Mapping[str, Any]]) -> Usage:
    """Return the usage of each container, by `POD/CONTAINER`, from objects of the metrics API."""
    found: Usage = {}
    for item in items:
        pod = (item.get("metadata") or {}).get("name")
        for one in item.get("containers") or ():
            given = one.get("usage") or {}
            amounts = {kind: parse_quantity(given[kind]) for kind in _LABELS if kind in given}
            found[f"{pod}/{one.get('name')}"] = amounts
    return found


def describe_use(pod: RankPod, usage: Usage) -> str:
    """Return what the main container uses of what it requests; "" if it is unknown."""
    used = usage.get(f"{pod.name}/{pod.container}", {})
    return ", ".join(_describe_one(kind, value, pod) for kind, value in used.items())


def _describe_one(kind: str, value: Decimal, pod: RankPod) -> str:
    containers = pod.body.get("spec", {}).get("containers", ())
    found = (one for one in containers if one.get("name") == pod.container)
    main: Mapping[str, Any] = next(found, {})
    resources = main.get("resources") or {}
    given = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    # Rounded: the API reports nanocores and kibibytes.
    text = f"{_LABELS[kind]} {format_amount(kind, round(value, 2 if kind == 'cpu' else 0))}"
    return (
        f"{text} of {format_amount(kind, parse_quantity(given[kind]))}" if kind in given else text
    )
