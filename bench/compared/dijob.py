"""DIJob, installed with its chart. Users write nothing for the addresses: `runtime: torch` sets
torch's variables, and `ditask` joins the job by itself.
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

from compared.entrant import FAILURES, HOME_NODE, LOST_NODE_SECONDS, Entrant, pod_spec
from compared.program import RANKS, Work


def job(work: Work) -> Body:
    pod = pod_spec(work, MAIN, {JOB_LABEL: work.name})
    # The operator adds the tolerations of a lost node itself.
    del pod["tolerations"]
    spec = {
        "replicas": RANKS,
        "runtime": "torch" if work.program.torch else "ditask",
        "backoffLimit": FAILURES,
        "lostNodeSeconds": LOST_NODE_SECONDS,
        "template": {"spec": pod},
    }
    meta = {"name": work.name}
    return {"apiVersion": API_VERSION, "kind": "DIJob", "metadata": meta, "spec": spec}


@contextmanager
def installed(cluster: Cluster) -> Iterator[None]:
    """Install the chart. At the end, remove it with its CRD, because DI-orchestrator's CRD has the
    same name.
    """
    install(cluster, archive("operator"), rf"nodeSelector.kubernetes\.io/hostname={HOME_NODE}")
    try:
        yield
    finally:
        env = {**os.environ, **cluster.env()}
        gone = [str(cluster.helm), "uninstall", "dijob", "--namespace", HOME, "--wait"]
        subprocess.run(gone, env=env, check=True, stdout=subprocess.DEVNULL)
        cluster.run_kubectl("delete", "crd", CRD, "--ignore-not-found", "--timeout=60s")


DIJOB = Entrant("DIJob", "this commit", "dijobs", installed, job)
