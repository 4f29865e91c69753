"""PyTorchJob of Kubeflow's training-operator: a master and three workers. The operator sets torch's
variables, and an init container of each worker waits for the master's name.
"""

from pathlib import Path

from cluster.images import busybox, write_archive
from space import Body

from compared.entrant import FAILURES, RANKS, Entrant, Release, code, pod_spec

# The init containers' default image is alpine, of which they use only busybox's programs.
INIT_IMAGE = "peers/busybox:local"


def init_images(folder: Path) -> list[Path]:
    """Return the archive of the init containers' image."""
    program = busybox()
    files = {f"/bin/{name}": program for name in ("sh", "seq", "nslookup", "sleep")}
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


def job(name: str) -> list[Body]:
    labels = {"training.kubeflow.org/job-name": name}
    template = {"spec": pod_spec(name, "pytorch", labels=labels)}
    replica = {"restartPolicy": "OnFailure", "template": template}
    made = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "runPolicy": {"backoffLimit": FAILURES},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, **replica},
                "Worker": {"replicas": RANKS - 1, **replica},
            },
        },
    }
    return [code(name), made]


PYTORCHJOB = Entrant("PyTorchJob", "1.9.4", "pytorchjobs", RELEASE.installed, job)
