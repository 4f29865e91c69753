"""kill -9 around each write of a start and of a re-rendezvous.

The state machine has the same kills (docs/decisions/018-test-placement.md). So `make test` runs
only the scenarios with the most kinds of writes, and `make faults` runs all.
"""

import pytest
from faults.lab.crashes import Scenario, killed_at_each_write
from faults.lab.lane import Lanes
from faults.lab.scenarios import RENEWAL, START

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize("scenario", [START, RENEWAL], ids=lambda scenario: scenario.name)
async def test_killed_at_each_write(scenario: Scenario, lanes: Lanes) -> None:
    await killed_at_each_write(scenario, lanes)
