"""JobSet: an indexed Job of four pods in a headless Service. Its users derive the master's name
from the names of the JobSet and the Job, and wait until it resolves.
"""

from space import Body

from compared.entrant import FAILURES, RANKS, Entrant, Release, code, pod_spec

RELEASE = Release(
    variable="JOBSET_BIN",
    image="peers/jobset:local",
    program="/manager",
    deployment="jobset-system/jobset-controller-manager",
    manifests="config/default",
    build="in a checkout of github.com/kubernetes-sigs/jobset: CGO_ENABLED=0 go build -o"
    " bin/manager .",
)
TASK = "rank"


def job(name: str) -> list[Body]:
    labels = {"jobset.sigs.k8s.io/jobset-name": name}
    prelude = f"""export RANK=$JOB_COMPLETION_INDEX WORLD_SIZE={RANKS}
export MASTER_ADDR={name}-{TASK}-0-0.{name} MASTER_PORT=29500
until getent hosts $MASTER_ADDR >/dev/null; do sleep 0.2; done"""
    template = {"spec": pod_spec(name, "main", prelude, "Never", labels)}
    # The restart of the whole set is what JobSet's documentation proposes for such programs: the
    # first failure fails the Job, and the failure policy starts all Jobs again.
    spec = {
        "parallelism": RANKS,
        "completions": RANKS,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": template,
    }
    made = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "network": {"enableDNSHostnames": True},
            "failurePolicy": {"maxRestarts": FAILURES},
            "replicatedJobs": [{"name": TASK, "replicas": 1, "template": {"spec": spec}}],
        },
    }
    return [code(name), made]


JOBSET = Entrant("JobSet", "0.12.0", "jobsets", RELEASE.installed, job)
