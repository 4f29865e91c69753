"""The chart's pods that have the launcher's image on each node before the first job comes there."""

import pytest
from archives import archive
from cluster import Cluster
from release import install
from space import HOME, Api

pytestmark = [pytest.mark.e2e]

SELECTOR = "app.kubernetes.io/component=launcher-prepull"


def test_one_runs_on_each_node_until_it_is_switched_off(cluster: Cluster, api: Api) -> None:
    operator = archive("operator")
    install(cluster, operator, "launcher.prepull.enabled=true")
    try:
        # helm waits for the DaemonSet.
        pods = api.pods(HOME, SELECTOR)
        nodes = {node.metadata.name for node in api.core.list_node().items}
        assert {pod["spec"]["nodeName"] for pod in pods} == nodes
        assert len(nodes) == len(pods) == 2
        for pod in pods:
            (status,) = pod["status"]["containerStatuses"]
            assert (status["ready"], status["restartCount"]) == (True, 0)
            assert status["image"].endswith("dijob/launcher:dev")
            assert status["imageID"]
    finally:
        install(cluster, operator)
    # Told to end they do, at once: the grace period is 30 s.
    cluster.run_kubectl(
        "-n", HOME, "wait", "pod", "-l", SELECTOR, "--for=delete", "--timeout=20s", timeout=30
    )
