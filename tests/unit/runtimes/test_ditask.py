"""The variables that are known before any address is."""

import pytest
from dijob.core.runtimes import ditask
from dijob.names import Topology
from unit.builders import gang


@pytest.mark.parametrize(("rank", "workers", "ids"), [(0, 1, "0"), (2, 1, "2"), (0, 2, "0,1"), (2, 2, "4,5")], ids=str)
def test_each_rank_knows_itself_and_the_world(rank: int, workers: int, ids: str) -> None:
    world = gang(size=3, workers=workers, topology=Topology.STAR)
    assert ditask.env(world.members[rank], world) == {
        "DI_JOB_ID": "job-uid",
        "DI_JOB_NAME": "job",
        "DI_JOB_NAMESPACE": "ns",
        "DI_RANK": str(rank),
        "DI_NODE_IDS": ids,
        "DI_PARALLEL_WORKERS": str(workers),
        "DI_TOPOLOGY": "star",
        "DI_LABELS": "",
    }
