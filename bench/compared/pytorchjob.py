"""PyTorchJob of Kubeflow's training-operator: a master and three workers. The operator sets torch's
variables, and an init container of each worker waits for the master's name.
"""

from pathlib import Path

from cluster.images import busybox, write_archive
from space import Body

from compared.entrant import FAILURES, Entrant, Release, pod_spec
from compared.program import AWAIT, RANKS, Work

# The init containers' default image is alpine:3.10, of which they use only busybox's programs.
INIT_IMAGE = "peers/busybox:local"
# Newer versions of busybox fail if any domain of the search list lacks the name. The init
# container of 1.9 expects that one of them is enough.
NSLOOKUP = b"""#!/bin/sh
read -r _ domain _ < /etc/resolv.conf
exec /bin/busybox nslookup "$1.$domain"
"""


def init_images(folder: Path) -> list[Path]:
    """Return the archive of the init containers' image."""
    program = busybox()
    files = {f"/bin/{name}": program for name in ("busybox", "sh", "seq", "sleep")}
    files["/bin/nslookup"] = NSLOOKUP
    return [write_archive(folder / "init.tar", INIT_IMAGE, files, [])]


RELEASE = Release(
    variable="TRAINING_OPERATOR_BIN",
    image="peers/training-operator:local",
    program="/manager",
    deployment="kubeflow/training-operator",
    manifests="manifests/overlays/standalone",
    build="in a copy of the Go module github.com/kubeflow/training-operator@v1.9.4: CGO_ENABLED=0"
    " go build -o bin/training-operator ./cmd/training-operator.v1",
    arguments=(f"--pytorch-init-container-image={INIT_IMAGE}",),
    archives=init_images,
)


def prelude(work: Work) -> str:
    """Return what users write for DI-engine; for torch, nothing."""
    if work.program.torch:
        return ""
    hosts = [
        f"{work.name}-master-0",
        *(f"{work.name}-worker-{number}" for number in range(RANKS - 1)),
    ]
    return f"""{AWAIT}
export DI_RANK=$RANK DI_NODES={",".join(hosts)} PLATFORM="--platform k8s"
await $DI_NODES"""


def job(work: Work) -> Body:
    labels = {"training.kubeflow.org/job-name": work.name}
    pod = pod_spec(work, "pytorch", labels, prelude(work))
    replica = {"restartPolicy": "OnFailure", "template": {"spec": pod}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": work.name},
        "spec": {
            "runPolicy": {"backoffLimit": FAILURES},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, **replica},
                "Worker": {"replicas": RANKS - 1, **replica},
            },
        },
    }


PYTORCHJOB = Entrant("PyTorchJob", "1.9.4", "pytorchjobs", RELEASE.installed, job)
