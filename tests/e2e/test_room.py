"""Not enough capacity: two jobs that each hold a part of what the other needs both succeed."""

import pytest
from dijob.names import GROUP
from jobs import peers, share_of_a_node
from space import Space, measured

pytestmark = pytest.mark.e2e

NODE_ROOM = 3  # pods per node


def test_two_jobs_of_four_with_room_for_six_both_succeed(space: Space) -> None:
    """Without a release of capacity, they would wait for each other forever."""
    nodes = space.api.core.list_node().items
    assert len(nodes) == 2, [node.metadata.name for node in nodes]
    request = share_of_a_node(space, NODE_ROOM)
    jobs = [
        peers(name, "--seconds=3", replicas=4, scheduleTimeoutSeconds=5)
        for name in ("left", "right")
    ]
    for job in jobs:
        job["spec"]["template"]["spec"]["containers"][0] |= request
    space.apply(*jobs)
    waited = [space.until_true(name, "Succeeded", 240) for name in ("left", "right")]
    measured(
        "seconds until two jobs of 4 with room for 6 have both succeeded", f"{sum(waited):.0f}"
    )
    assert all(space.status(name).get("restarts", 0) == 0 for name in ("left", "right"))


def test_with_host_network_no_two_ranks_share_a_node(space: Space) -> None:
    """The ranks use ports of the node. A third rank finds no free port, which the job reports."""
    size = {
        "replicas": 3,
        "minReplicas": 2,
        "maxReplicas": 3,
        "parallelWorkers": 2,
        "gatherSeconds": 1,
    }
    space.apply(peers("host", "--forever", pod={"hostNetwork": True}, **size))
    space.until_true("host", "Running", 90)
    placed = [pod for pod in space.pods("host") if pod["spec"].get("nodeName")]
    assert len({pod["spec"]["nodeName"] for pod in placed}) == len(placed) == 2
    assert all(pod["status"]["podIP"] == pod["status"]["hostIP"] for pod in placed)
    ips = ",".join(pod["status"]["podIP"] for pod in placed)
    assert {pod["metadata"]["annotations"][f"{GROUP}/node-ips"] for pod in placed} == {ips}

    # The scheduler may report on rank 2 after the other ranks have started.
    def unsaid() -> str:
        message = str(space.condition("host", "AddressesReady")["message"])
        return "" if "rank 2: " in message and "free ports" in message else message

    space.until("the job says that rank 2 finds no free port", unsaid, 120)
