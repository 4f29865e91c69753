"""Control planes with simulated nodes for the tests and the benchmarks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import CONTROL_PLANE, Cluster, Options, find, up
from cluster.shell import until_established
from manifests import CRD

ROOT = Path(__file__).parents[1]


@contextmanager
def control_plane(
    name: str,
    nodes: int,
    quiet: bool = True,
    loopback_pods: bool = False,
    features: bool = True,
) -> Iterator[Cluster]:
    """Yield a control plane with the CRD. A control plane that was already up stays up."""
    before = find(name)
    cluster = up(
        Options(
            name=name,
            mode=CONTROL_PLANE,
            kwok_nodes=nodes,
            quiet=quiet,
            loopback_pods=loopback_pods,
            features=features,
            crds=(ROOT / "crds/dijob.yaml",),
        )
    )
    try:
        cluster.run_kubectl("apply", "-f", str(ROOT / "crds/dijob.yaml"))
        until_established(cluster.run_kubectl, CRD)
        yield cluster
    finally:
        if before is None:
            cluster.down()
