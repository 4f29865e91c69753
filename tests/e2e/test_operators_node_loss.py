"""The operator's node falls silent with ranks on it: the job recovers as from any node loss."""

import pytest
from node_loss import OPERATORS_BOUND, whole_again
from space import Space

pytestmark = pytest.mark.e2e


def test_the_job_recovers_on_the_other_node(space: Space) -> None:
    whole_again(space, with_operator=True, bound=OPERATORS_BOUND)
