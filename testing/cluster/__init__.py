"""The test cluster: kind, an embedded cluster of two real nodes, or a control plane with simulated
nodes.

from cluster import Options, up
with up(Options(name="faults", mode="control-plane", kwok_nodes=50)) as cluster:
    cluster.run_kubectl("get", "nodes")
"""

from cluster.cluster import CONTROL_PLANE, EMBEDDED, KIND, Cluster, find, get
from cluster.errors import ClusterError
from cluster.lifecycle import Options, up

__all__ = [
    "CONTROL_PLANE",
    "EMBEDDED",
    "KIND",
    "Cluster",
    "ClusterError",
    "Options",
    "find",
    "get",
    "up",
]
