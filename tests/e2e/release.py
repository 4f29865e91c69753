"""The operator as its chart installs it."""

import os
import subprocess
from pathlib import Path

from archives import ROOT
from cluster import Cluster
from jobs import LIGHT
from space import HOME


def install(cluster: Cluster, operator: Path, *values: str, sources: Path = ROOT) -> None:
    """The operator by the chart in `sources`, in a namespace under the restricted profile; `values`
    are more of its values. Another image, or another value, restarts it. One operator, unless they
    say another number: tests look at its log, and end it.
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
    # The name of the archive is a hash of all that is in the image.
    told = [
        "--set",
        f"podAnnotations.dijob-image={operator.stem}",
        "--set",
        f"redis.image={LIGHT}",
        # 0.1.0 has no such value, and one operator.
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
