"""`kubectl dijob doctor` against real pods: faults of nodes, and of the data passed to pods.

All nodes of the test cluster share one clock, so a wrong clock is simulated in the pod's Python.
The other faults are real: a tag with two images, a launcher that does not update topology.json,
ranks that listen on other ports than declared.
"""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from archives import archive, with_files
from asked import Wanted, unfound
from faults.real_pods.looks import View
from jobs import job, peers
from space import Body, Space

pytestmark = pytest.mark.e2e

MOVED = "dijob/moved:1"
# The Python of each pod imports this first.
WRONG_CLOCK = """
mkdir -p /tmp/site
[ "$DI_RANK" = 0 ] || cat > /tmp/site/sitecustomize.py <<END
import time
right = time.time
time.time = lambda: right() + 90
END
exec light-peer --forever
"""
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"diengine/job": "moved"}},
        }
    ]
}


def test_clocks_that_differ(space: Space) -> None:
    main = {
        "command": ["bash", "-c", WRONG_CLOCK],
        "env": [{"name": "PYTHONPATH", "value": "/tmp/site"}],
    }
    space.apply(job("wrong", main))
    space.until_true("wrong", "Running")
    wanted = {("wrong", "clocks"): ("the clocks of ranks 0 and 1 differ by 9", "chrony, ntp")}
    space.until("doctor of wrong", partial(unfound, space, "wrong", wanted), 180)


def test_a_tag_that_is_another_image_on_another_node(space: Space, tmp_path: Path) -> None:
    """A tag is pushed again after one node has pulled it."""
    for name in space.cluster.nodes:
        made = with_files(archive("light"), tmp_path / f"{name}.tar", MOVED, {"/built": name})
        space.cluster.node(name).load(made)
    main = {"image": MOVED, "imagePullPolicy": "Never", "command": ["light-peer", "--forever"]}
    space.apply(job("moved", main, pod=SPREAD))
    space.until_true("moved", "Running")
    wanted: Wanted = {
        ("moved", "same image"): (f"{MOVED} is not the same image on all nodes", "by its digest")
    }
    space.until("doctor of moved", partial(unfound, space, "moved", wanted), 180)


def test_a_list_that_does_not_come_into_the_pod(space: Space) -> None:
    space.apply(peers("late", "--forever"))
    space.until_true("late", "PeersReady")
    box = View.of(space).box("late-0")
    assert box
    assert box.first
    os.kill(box.first, signal.SIGSTOP)
    try:
        space.kubectl("delete", "pod", "late-1", "--wait=false")
        wanted = {
            ("late", "peer list"): (
                "rank 0: /run/dijob/topology.json does not have the pod's revision 2",
                "kubectl describe node",
            )
        }
        space.until("doctor of late", partial(unfound, space, "late", wanted), 240)
    finally:
        os.kill(box.first, signal.SIGCONT)


def on_host(node: str, port: int) -> Body:
    """Return the template of a rank in this node's network."""
    command = ["ditask", "--package", "x", "--main", "x.main", "--ports", str(port)]
    pod = {"hostNetwork": True, "nodeSelector": {"kubernetes.io/hostname": node}}
    template: Body = job("shared", {"command": command}, pod=pod)["spec"]["template"]
    return template


def test_ranks_that_share_a_nodes_ports(space: Space) -> None:
    """The scheduler separates pods with equal declared ports, so these ranks listen on other ports
    than the declared ones."""
    node = space.cluster.nodes[0]
    body = job("shared", {"command": ["ditask"]})
    kinds = zip(("learner", "collector"), (50600, 50515), strict=True)
    body["spec"] = {"tasks": [{"type": k, "template": on_host(node, port)} for k, port in kinds]}
    space.apply(body)
    wanted = {
        ("shared", "host network"): (
            f"ranks 0-1 use hostNetwork and share the ports of node {node}",
            "spread the ranks across nodes",
        )
    }
    space.until("doctor of shared", partial(unfound, space, "shared", wanted), 180)
