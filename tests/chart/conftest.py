"""helm without a cluster, and what it makes of each set of values."""

import pytest
from chart.lab import Lab
from chart.rendered import SETS, Objects, parsed, render
from cluster.build import build
from cluster.shell import Progress


@pytest.fixture(scope="module")
def offline() -> Lab:
    """helm as the test cluster's build makes it."""
    return Lab(build(Progress(1)))


@pytest.fixture(scope="module", params=SETS)
def objects(request: pytest.FixtureRequest, offline: Lab) -> Objects:
    """The objects of one set of values."""
    return parsed(render(offline, SETS[request.param]))
