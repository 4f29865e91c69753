"""Fixtures: helm without a cluster, and the chart rendered with each set of values."""

import pytest
from chart.lab import Lab
from chart.rendered import SETS, Objects, parsed, render
from cluster.build import build
from cluster.shell import Progress


@pytest.fixture(scope="module")
def offline() -> Lab:
    """Return a lab with the helm of the test cluster's build."""
    return Lab(build(Progress(1)))


@pytest.fixture(scope="module", params=SETS)
def objects(request: pytest.FixtureRequest, offline: Lab) -> Objects:
    """Return the rendered objects for one set of values."""
    return parsed(render(offline, SETS[request.param]))
