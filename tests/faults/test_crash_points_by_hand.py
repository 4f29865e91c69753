"""kill -9 around each write after a user's edit, and of the start of a gang. (A separate file,
because workers run whole files.)
"""

import pytest
from cluster.build import chosen
from faults.lab.crashes import killed_at_each_write
from faults.lab.lane import Lanes
from faults.lab.scenarios import GANG, RESUME

pytestmark = pytest.mark.apiserver


@pytest.mark.long
async def test_killed_at_each_write_of_a_resumption(lanes: Lanes) -> None:
    await killed_at_each_write(RESUME, lanes)


@pytest.mark.skipif(not chosen().gates, reason="this Kubernetes has no PodGroups")
async def test_killed_at_each_write_of_the_start_of_a_gang(lanes: Lanes) -> None:
    await killed_at_each_write(GANG, lanes)
