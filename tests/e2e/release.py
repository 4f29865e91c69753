"""Installs the operator with its chart."""

import json
import os
import subprocess
from pathlib import Path

from archives import ROOT
from cluster import Cluster
from cluster.waiting import until
from jobs import LIGHT
from space import HOME, OPERATORS


def install(cluster: Cluster, operator: Path, *values: str, sources: Path = ROOT) -> None:
    """Install the operator with the chart in `sources`, in a namespace with the Pod Security level
    restricted. `values` are additional values. Another image or value restarts it. By default there
    is one replica, because tests read its log and end it. Afterwards, no pod of an older release is
    left.
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
    _until_replaced(cluster, elects=sources == ROOT)


def _until_replaced(cluster: Cluster, elects: bool) -> None:
    """Wait until only new operators are left and, if they elect a leader, until one of them leads.

    Helm waits only until the new pods are Ready, which a standby is, too. Until its end, an old
    leader creates pods as its own release does.
    """
    at_home = ("-n", HOME)
    rollout = ("rollout", "status", "deployment/dijob", "--timeout=180s")
    cluster.run_kubectl(*at_home, *rollout, timeout=190)
    # Afterwards, all old pods are at least being deleted.
    holder = ("get", "lease", "dijob", "--ignore-not-found", "-o=jsonpath={.spec.holderIdentity}")

    def problem() -> str:
        listed = cluster.run_kubectl(*at_home, "get", "pods", "-l", OPERATORS, "-o", "json")
        found = [pod["metadata"] for pod in json.loads(listed)["items"]]
        if old := [meta["name"] for meta in found if "deletionTimestamp" in meta]:
            return f"{old} are being deleted"
        leader = cluster.run_kubectl(*at_home, *holder) if elects else ""
        names = [meta["name"] for meta in found]
        return "" if leader in names or not elects else f"{leader!r} leads, there are {names}"

    until("only new operators are left", problem, 180)


RESTRICTED = f"""
apiVersion: v1
kind: Namespace
metadata:
  name: {HOME}
  labels: {{pod-security.kubernetes.io/enforce: restricted}}
"""
