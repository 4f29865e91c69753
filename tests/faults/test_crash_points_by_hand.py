"""kill -9 around each write of what a user does: a file of its own, since files go to workers as a
whole.
"""

import pytest
from faults.conftest import Lanes
from faults.crashes import killed_at_each_write
from faults.scenarios import RESUME

pytestmark = pytest.mark.apiserver


async def test_killed_at_each_write_of_a_resumption(lanes: Lanes) -> None:
    await killed_at_each_write(RESUME, lanes)
