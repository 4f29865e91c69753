"""The chart's pods that pull the launcher's image on each node before the first job runs there."""

import pytest
from archives import archive
from cluster import Cluster
from cluster.waiting import until
from dijob.core.options import LAUNCHER_IMAGE
from release import install
from space import HOME, Api, Body

pytestmark = [pytest.mark.e2e]

SELECTOR = "app.kubernetes.io/component=launcher-prepull"


def is_ready(pod: Body) -> bool:
    """Return whether the pod's container is ready."""
    return any(status["ready"] for status in pod["status"].get("containerStatuses", ()))


def test_a_prepull_pod_runs_on_each_node_until_it_is_disabled(cluster: Cluster, api: Api) -> None:
    operator = archive("operator")
    install(cluster, operator, "launcher.prepull.enabled=true")
    try:
        nodes = {node.metadata.name for node in api.core.list_node().items}

        def missing() -> str:
            # helm does not wait for a DaemonSet with maxUnavailable 100%.
            pods = api.pods(HOME, SELECTOR)
            ready = {pod["spec"]["nodeName"] for pod in pods if is_ready(pod)}
            return "" if ready == nodes else f"ready on {ready}: {[p['status'] for p in pods]}"

        until("a pod of it is ready on each node", missing, 60)
        for pod in api.pods(HOME, SELECTOR):
            (status,) = pod["status"]["containerStatuses"]
            assert status["restartCount"] == 0
            assert status["image"].endswith(LAUNCHER_IMAGE)
            assert status["imageID"]
    finally:
        install(cluster, operator)
    # They end at once after SIGTERM, and do not use the grace period of 30 s.
    cluster.run_kubectl(
        "-n", HOME, "wait", "pod", "-l", SELECTOR, "--for=delete", "--timeout=20s", timeout=30
    )
