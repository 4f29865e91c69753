"""A node with ranks falls silent: the job recovers on the other node without counted failures."""

import pytest
from node_loss import BOUND, whole_again
from space import Space

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_the_job_recovers_on_the_other_node(space: Space) -> None:
    whole_again(space, with_operator=False, bound=BOUND)
