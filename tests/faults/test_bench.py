"""A short run of the benchmark, with figures that do not depend on the load of the machine."""

import asyncio

import pytest
from entrants import OPERATORS
from faults.lab.kube import Access, Kube
from measured import Result, Shape
from place import Place, until_served
from planes import control_plane
from report import Machine, Report
from start import race
from tables import start_blocks

pytestmark = pytest.mark.apiserver

SHAPE = Shape(20, 4)
# Ratios to the gated floor. With two other test files running, and one run of each, these limits
# are loose: an idle machine shows 1.4, 1.5 and 1.7 (docs/performance.md).
MOST_BYTES, MOST_CPU, MOST_SECONDS = 1.45, 3, 6


async def little() -> Report:
    with control_plane("bench-little", nodes=20, loopback_pods=True) as cluster:
        async with Kube(Access.of(cluster.kubeconfig)) as kube:
            await until_served(kube)
            return Report(Machine.here(), await race(Place(cluster, kube), SHAPE, 1, warm=False))


def test_the_cost_of_a_start_is_bounded() -> None:
    report = asyncio.run(little())
    results, shown = report.tables[SHAPE], "\n".join(start_blocks(report).values())
    print(shown)
    for name in OPERATORS:
        _writes_what_it_must(results[name], name, shown)
        assert 0 < results[name].own < results[name].plane / 2, shown
    by_ip, gated = results["IP"], results["gated"]
    assert 0 < results["bare"].size < gated.size, shown
    assert 0 < results["waiting"].size < gated.size < by_ip.size <= MOST_BYTES * gated.size, shown
    assert by_ip.plane <= MOST_CPU * gated.plane, shown
    assert by_ip.seconds <= MOST_SECONDS * gated.seconds, shown


def _writes_what_it_must(result: Result, name: str, shown: str) -> None:
    """Check the writes of a start. Each pod is created once, and patched once, or never if its list
    is known before or its launcher gets the list through the channel. There is one event. Statuses:
    the revision, Running, and one more if the start takes longer.
    """
    by_name = name == "Hostname"
    writes, statuses = dict(result.writes), result.writes["patch dijobs/status"] / SHAPE.jobs
    assert writes.pop("create pods") == SHAPE.pods, shown
    patched = writes.pop("patch pods", 0)
    may_be = {0, SHAPE.pods} if by_name else {0 if "channel" in name else SHAPE.pods}
    assert patched in may_be, shown
    assert writes.pop("create services", 0) == (SHAPE.jobs if by_name else 0), shown
    assert writes.pop("create events") <= SHAPE.jobs, shown
    assert 2 <= statuses <= 3 + result.p99 / 10, shown
    assert writes.keys() == {"patch dijobs/status"}, shown
