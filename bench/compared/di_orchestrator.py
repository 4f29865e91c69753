"""The last release of DI-orchestrator. It sets the names of all pods, and each pod's rank. Its
users derive torch's variables from these, and wait until the master's name resolves.
"""

from manifests import API_VERSION, MAIN
from space import Body

from compared.entrant import FAILURES, Entrant, Release, pod_spec
from compared.program import AWAIT, RANKS, Work

RELEASE = Release(
    variable="DI_ORCHESTRATOR_BIN",
    image="peers/di-orchestrator:local",
    program="/di-orchestrator",
    deployment="di-system/di-operator",
    manifests="config/di-manager.yaml",
    build="in a checkout of github.com/opendilab/DI-orchestrator at v1.1.3: CGO_ENABLED=0"
    " GOFLAGS=-mod=mod go build -o bin/di-orchestrator .",
)


def prelude(work: Work) -> str:
    """Return the lines that users write, because nothing waits for the names in DI_NODES."""
    if work.program.torch:
        return f"""{AWAIT}
export RANK=$DI_RANK WORLD_SIZE={RANKS} MASTER_ADDR=${{DI_NODES%%,*}} MASTER_PORT=29500
await $MASTER_ADDR"""
    return f"""{AWAIT}
export PLATFORM="--platform k8s"
await $DI_NODES"""


def job(work: Work) -> Body:
    # DI-orchestrator itself sets restartPolicy: Never.
    pod = pod_spec(work, MAIN, {"diengine/job": work.name}, prelude(work))
    task = {"name": "rank", "type": "none", "replicas": RANKS, "template": {"spec": pod}}
    spec = {"backoffLimit": FAILURES, "tasks": [task]}
    meta = {"name": work.name}
    return {"apiVersion": API_VERSION, "kind": "DIJob", "metadata": meta, "spec": spec}


DI_ORCHESTRATOR = Entrant("DI-orchestrator", "1.1.3", "dijobs", RELEASE.installed, job)
