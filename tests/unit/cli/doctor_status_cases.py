"""What `doctor` says of what the apiserver knows: conditions, nodes, images, quotas, ends."""

from unit.cli.evidence import OK, PROBLEM, UNKNOWN, Body, Case, condition, evidence, job, pod


def waiting(reason: str, message: str) -> Body:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def unschedulable(why: str) -> Body:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    return {"conditions": [told]}


def ended(code: int, reason: str = "Error", message: str = "") -> Body:
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"lastState": {"terminated": end}}


HOST = {"hostNetwork": True}

OF_STATUS: dict[str, Case] = {
    "problem of the status": Case(
        "status",
        evidence(job(condition("Running", "Blocked", "rank 1: it crashes", "False"))),
        PROBLEM,
        "Running Blocked: rank 1: it crashes",
        "correct the image or the command",
    ),
    "a condition that was one": Case(
        "status",
        evidence(job(condition("Invalid", "SpecInvalid", "x", "False"))),
        OK,
        "Running: all",
    ),
    "no operator": Case(
        "status", evidence(job(phase="")), PROBLEM, "no operator has looked", "kubectl get deploy"
    ),
    "no node": Case(
        "nodes",
        evidence(pods=[pod(0), pod(1, status=unschedulable("0/2 nodes: Insufficient cpu"))]),
        PROBLEM,
        "rank 1 found no node: 0/2 nodes: Insufficient cpu",
        "ask for less",
    ),
    "a claim without a volume": Case(
        "nodes",
        evidence(
            pods=[pod(0, status=unschedulable("pod has unbound immediate PersistentVolumeClaims."))]
        ),
        PROBLEM,
        "rank 0 found no node: pod has unbound immediate",
        "a claim has no volume: kubectl get pvc; the cluster needs a StorageClass",
    ),
    "no claim": Case(
        "nodes",
        evidence(pods=[pod(0, status=unschedulable('persistentvolumeclaim "out" not found'))]),
        PROBLEM,
        'persistentvolumeclaim "out" not found',
        "make the claim, or correct its name",
    ),
    "no free port": Case(
        "nodes",
        evidence(pods=[pod(0, status=unschedulable("didn't have free ports"))]),
        PROBLEM,
        "free ports",
        "hostNetwork",
    ),
    "no image": Case(
        "images",
        evidence(pods=[pod(0, main=waiting("ImagePullBackOff", "not found")), pod(1)]),
        PROBLEM,
        "rank 0: image x cannot be pulled (ImagePullBackOff): not found",
        "push it",
    ),
    "quota": Case(
        "quota",
        evidence(job(condition("PodsCreated", "PodForbidden", "exceeded quota: q", "False"))),
        PROBLEM,
        "exceeded quota: q",
        "raise the quota",
    ),
    "quotas that may not be read": Case(
        "quota",
        evidence(quotas=None, refused={"quotas": "you cannot list"}),
        UNKNOWN,
        "you cannot list",
        "ask for the right",
    ),
    "a quota with room": Case(
        "quota",
        evidence(quotas=[{"metadata": {"name": "q"}}]),
        OK,
        "the quotas of the namespace (q)",
    ),
    "out of memory": Case(
        "failures",
        evidence(pods=[pod(0, main=ended(137, "OOMKilled")), pod(1)]),
        PROBLEM,
        "rank 0, container di-container, ran out of memory",
        "limits.memory",
    ),
    "a failure": Case(
        "failures",
        evidence(pods=[pod(0), pod(1, main=ended(1, message="Traceback\nKeyError: 'a'\n"))]),
        PROBLEM,
        "exited 1: KeyError: 'a'",
        "logs test --rank 1 --previous",
    ),
    "a start with a new list is none": Case(
        "failures", evidence(pods=[pod(0, main=ended(85))]), OK, "no container has failed"
    ),
    "a failure whose pod is gone": Case(
        "failures",
        evidence(job(firstFailure={"rank": 1, "exitCode": 2, "message": "bad"})),
        PROBLEM,
        "rank 1, container di-container, exited 2: bad",
        "--rank 1",
    ),
    "a failure of which the kubelet knows no more": Case(
        "failures",
        evidence(
            job(firstFailure={"rank": 0, "exitCode": 3, "message": "no model here"}),
            pods=[pod(0, main=ended(137, "ContainerStatusUnknown"))],
        ),
        PROBLEM,
        "rank 0, container di-container, exited 3: no model here",
        "--rank 0",
    ),
    "memory of which the kubelet knows no more": Case(
        "failures",
        evidence(
            job(firstFailure={"rank": 0, "exitCode": 137, "reason": "OOMKilled"}),
            pods=[pod(0, main=ended(137, "ContainerStatusUnknown"))],
        ),
        PROBLEM,
        "ran out of memory",
        "limits.memory",
    ),
    "a tag that moved": Case(
        "same image",
        evidence(pods=[pod(0), pod(1, main={"imageID": "r/x@sha256:2"})]),
        PROBLEM,
        "x is not the same image on all nodes (rank 0: sha256:1, rank 1: sha256:2)",
        "by its digest",
    ),
    "one node's ports": Case(
        "host network",
        evidence(
            pods=[pod(0, spec={**HOST, "nodeName": "n"}), pod(1, spec={**HOST, "nodeName": "n"})]
        ),
        PROBLEM,
        "ranks 0-1 share node n",
        "leave hostNetwork out",
    ),
    "ports of two nodes": Case(
        "host network", evidence(pods=[pod(0, spec=HOST), pod(1, spec=HOST)]), OK, "alone"
    ),
}
