"""PyTorchJob of Kubeflow's training-operator: a master and three workers. The operator sets torch's
variables, and an init container of each worker waits for the master's name.
"""

from jobs import DITASK
from space import Body

from compared.entrant import FAILURES, Entrant, Release, pod_spec
from compared.program import AWAIT, RANKS, Work

# The operator's own template of the init container, which asks for the master's name every two
# seconds. Its image, alpine:3.10, is in no registry that the test cluster reaches, and nslookup of
# newer versions of busybox fails if one domain of the search list lacks the name. So the image is
# that of the ranks, and `getent hosts` asks instead.
TEMPLATE = """
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  resources:
    limits: {cpu: 100m, memory: 20Mi}
    requests: {cpu: 50m, memory: 10Mi}
  command: ['sh', '-c', 'err=1;for i in $(seq {{.MaxTries}}); do if getent hosts {{.MasterAddr}};
    then err=0 && break; fi;echo waiting for master; sleep 2; done; exit $err']
"""

RELEASE = Release(
    variable="TRAINING_OPERATOR_BIN",
    image="peers/training-operator:local",
    program="/manager",
    deployment="kubeflow/training-operator",
    manifests="manifests/overlays/standalone",
    build="in a copy of the Go module github.com/kubeflow/training-operator@v1.9.4: CGO_ENABLED=0"
    " go build -o bin/training-operator ./cmd/training-operator.v1",
    arguments=(f"--pytorch-init-container-image={DITASK}",),
    # The path from which the operator reads a template.
    files={"/etc/config/initContainer.yaml": TEMPLATE},
)


def prelude(work: Work) -> str:
    """Return the lines that users write for DI-engine. Programs with torch need none."""
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
