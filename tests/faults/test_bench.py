"""The bench in little: that it runs, and figures that do not depend on how busy the machine is."""

import asyncio

import pytest
from goals import rows
from measured import Shape
from planes import control_plane
from start import race

pytestmark = pytest.mark.apiserver

SHAPE = Shape(20, 4)


def test_a_start_writes_no_more_than_it_must() -> None:
    with control_plane("bench-little", nodes=20) as cluster:
        results = asyncio.run(race(cluster, SHAPE, 1))
    shown = "\n".join([*(r.row(SHAPE, name) for name, r in results.items()), *rows(SHAPE, results)])
    print(shown)
    by_ip, by_name = results["IP"], results["Hostname"]
    # Twice each rank, the list, Running, its event, and steps on the way where it is slow.
    assert by_ip.writes.total() / SHAPE.jobs <= 2 * SHAPE.ranks + 5, by_ip.writes
    assert not by_ip.writes["create services"]
    assert by_name.writes["create services"] == SHAPE.jobs
    assert 0 < results["bare"].size < results["gated"].size < by_ip.size, shown
    assert 0 < by_ip.own < by_ip.plane / 2, shown
