"""Installs the operator with its chart."""

import os
import subprocess
from pathlib import Path

from archives import ROOT
from cluster import Cluster
from jobs import LIGHT
from space import HOME


def install(cluster: Cluster, operator: Path, *values: str, sources: Path = ROOT) -> None:
    """Install the operator with the chart in `sources`, in a namespace with the Pod Security level
    restricted. `values` are additional values. Another image or value restarts it. By default there
    is one replica, because tests read its log and end it.
    """
    cluster.run_kubectl("apply", "-f", "-", stdin=RESTRICTED)
    chart = [
        "upgrade",
        "--install",
        "dijob",
        str(sources / "charts/dijob"),
        "--namespace",
        HOME,
        "--wait",
    ]
    # The name of the archive is a hash of the image's content.
    told = [
        "--set",
        f"podAnnotations.dijob-image={operator.stem}",
        "--set",
        f"redis.image={LIGHT}",
        # 0.1.0 has no such value, and always one replica.
        *(("--set", "replicas=1") if sources == ROOT else ()),
        *(part for value in values for part in ("--set", value)),
        "--timeout",
        "3m",
    ]
    env = {**os.environ, **cluster.env()}
    done = subprocess.run(
        [str(cluster.helm), *chart, *told],
        check=False,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout.decode()


RESTRICTED = f"""
apiVersion: v1
kind: Namespace
metadata:
  name: {HOME}
  labels: {{pod-security.kubernetes.io/enforce: restricted}}
"""
