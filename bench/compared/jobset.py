"""JobSet: an indexed Job of four pods in a headless Service. Its users derive the master's name
from the names of the JobSet and the Job, and wait until it resolves.
"""

from space import Body

from compared.entrant import FAILURES, Entrant, Release, pod_spec
from compared.program import AWAIT, RANKS, Work

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


def prelude(work: Work) -> str:
    """Return what users write: names by convention, and the wait for DNS."""
    hosts = [f"{work.name}-{TASK}-0-{rank}.{work.name}" for rank in range(RANKS)]
    if work.program.torch:
        return f"""{AWAIT}
export RANK=$JOB_COMPLETION_INDEX WORLD_SIZE={RANKS} MASTER_ADDR={hosts[0]} MASTER_PORT=29500
await $MASTER_ADDR"""
    return f"""{AWAIT}
export DI_RANK=$JOB_COMPLETION_INDEX DI_NODES={",".join(hosts)} PLATFORM="--platform k8s"
await $DI_NODES"""


def job(work: Work) -> Body:
    labels = {"jobset.sigs.k8s.io/jobset-name": work.name}
    pod = pod_spec(work, "main", labels, prelude(work), restart="Never")
    # A group of torch restarts as a whole, as in JobSet's examples: the first failure fails the
    # Job, and the failure policy starts the set again. Ranks of DI-engine are replaced one by one.
    spec = {
        "parallelism": RANKS,
        "completions": RANKS,
        "completionMode": "Indexed",
        "backoffLimit": 0 if work.program.torch else FAILURES,
        "template": {"spec": pod},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": work.name},
        "spec": {
            "network": {"enableDNSHostnames": True},
            "failurePolicy": {"maxRestarts": FAILURES},
            "replicatedJobs": [{"name": TASK, "replicas": 1, "template": {"spec": spec}}],
        },
    }


JOBSET = Entrant("JobSet", "0.12.0", "jobsets", RELEASE.installed, job)
