"""DI-orchestrator, the last release: it sets the names of all pods, and each pod's rank. Its users
derive torch's variables from these, and wait until the master's name resolves.
"""

from manifests import API_VERSION, MAIN
from space import Body

from compared.entrant import FAILURES, Entrant, Release, code, pod_spec
from compared.entrant import RANKS as COUNT

RELEASE = Release(
    variable="DI_ORCHESTRATOR_BIN",
    image="peers/di-orchestrator:local",
    program="/di-orchestrator",
    deployment="di-system/di-operator",
    manifests="config/di-manager.yaml",
    build="in a checkout of github.com/opendilab/DI-orchestrator at v1.1.3: CGO_ENABLED=0"
    " GOFLAGS=-mod=mod go build -o bin/di-orchestrator .",
)
PRELUDE = """export RANK=$DI_RANK MASTER_ADDR=${DI_NODES%%,*} MASTER_PORT=29500
export WORLD_SIZE=$(tr , '\\n' <<< "$DI_NODES" | wc -l)
until getent hosts $MASTER_ADDR >/dev/null; do sleep 0.2; done"""


def job(name: str) -> list[Body]:
    # It sets restartPolicy: Never itself.
    spec = pod_spec(name, MAIN, PRELUDE, labels={"diengine/job": name})
    task = {"name": "rank", "type": "none", "replicas": COUNT, "template": {"spec": spec}}
    meta = {"name": name}
    made = {"apiVersion": API_VERSION, "kind": "DIJob", "metadata": meta}
    return [code(name), {**made, "spec": {"backoffLimit": FAILURES, "tasks": [task]}}]


DI_ORCHESTRATOR = Entrant("DI-orchestrator", "1.1.3", "dijobs", RELEASE.installed, job)
