"""DIJob, installed with its chart. `runtime: torch` sets torch's variables, so users write nothing
for the addresses.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from archives import archive
from cluster import Cluster
from manifests import API_VERSION, CRD, MAIN
from release import install
from space import HOME, JOB_LABEL, Body

from compared.entrant import (
    FAILURES,
    HOME_NODE,
    LOST_NODE_SECONDS,
    RANKS,
    Entrant,
    code,
    pod_spec,
)


def job(name: str) -> list[Body]:
    pod = pod_spec(name, MAIN, labels={JOB_LABEL: name})
    # The operator adds the tolerations of a lost node itself.
    del pod["tolerations"]
    spec = {
        "replicas": RANKS,
        "runtime": "torch",
        "backoffLimit": FAILURES,
        "lostNodeSeconds": LOST_NODE_SECONDS,
        "template": {"spec": pod},
    }
    made = {"apiVersion": API_VERSION, "kind": "DIJob", "metadata": {"name": name}, "spec": spec}
    return [code(name), made]


@contextmanager
def installed(cluster: Cluster) -> Iterator[None]:
    """Install the chart, and remove it with its CRD, which DI-orchestrator's has the name of."""
    install(cluster, archive("operator"), rf"nodeSelector.kubernetes\.io/hostname={HOME_NODE}")
    try:
        yield
    finally:
        env = {**os.environ, **cluster.env()}
        gone = [str(cluster.helm), "uninstall", "dijob", "--namespace", HOME, "--wait"]
        subprocess.run(gone, env=env, check=True, stdout=subprocess.DEVNULL)
        cluster.run_kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")


DIJOB = Entrant("DIJob", "this commit", "dijobs", installed, job)
