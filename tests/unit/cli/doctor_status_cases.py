"""Cases for the checks of `doctor` that read API objects only."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dijob.api.status import format_time
from dijob.cli.queues import QueueFinding
from dijob.client import Job, RankPod
from unit.cli.evidence import (
    OK,
    PROBLEM,
    RANK,
    UNKNOWN,
    Body,
    Case,
    condition,
    evidence,
    job,
    pod,
)


def waiting(reason: str, message: str) -> Body:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def creating(rank: int, seconds: int) -> RankPod:
    """Return a pod whose sandbox has been ready for some seconds, without its container."""
    since = format_time(NOW - timedelta(seconds=seconds))
    kind = "PodReadyToStartContainers"
    ready = {"type": kind, "status": "True", "lastTransitionTime": since}
    main = waiting("ContainerCreating", "")
    return pod(rank, main=main, status={"conditions": [ready]})


def unschedulable(why: str) -> Body:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    return {"conditions": [told]}


def ended(code: int, reason: str = "Error", message: str = "") -> Body:
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"lastState": {"terminated": end}}


def budget(selector: Any, allowed: int, name: str = "users", **spec: Any) -> Body:
    """Return a budget, by default with maxUnavailable."""
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, **(spec or {"maxUnavailable": 1})},
        "status": {"disruptionsAllowed": allowed},
    }


def tasks_of(collectors: int, **status: Any) -> Job:
    """Return a job of one learner and collectors."""
    template = {"spec": {"containers": [{"name": "di-container", "image": "x", "command": ["a"]}]}}
    tasks = [
        {"type": "learner", "template": template},
        {"type": "collector", "replicas": collectors, "template": template},
    ]
    body = job(desired=collectors + 1, **status).body
    return Job({**body, "spec": {"tasks": tasks}})


HOST = {"hostNetwork": True}
BEGAN = "2026-11-25T11:58:00Z"
NOW = datetime(2026, 11, 25, 12, 0, 0, tzinfo=UTC)
LEASE: Body = {
    "metadata": {"name": "dijob-operator", "creationTimestamp": "2026-11-25T11:00:00Z"},
    "spec": {"holderIdentity": "mine", "renewTime": "2026-11-25T12:00:00Z"},
}


def ending(
    *, container: str = "", finalizers: Any = (), until: str = "2026-11-25T12:05:00Z"
) -> RankPod:
    """Return the pod of rank 1 while it is being deleted."""
    one = pod(1, main={"state": {"terminated": {"exitCode": 143}}})
    states = [*one.body["status"]["containerStatuses"]]
    states += [{"name": container, "state": {"running": {}}}] if container else []
    meta = {**one.meta, "deletionTimestamp": until, "deletionGracePeriodSeconds": 300}
    meta |= {"finalizers": [*finalizers]}
    status = {**one.body["status"], "containerStatuses": states}
    return replace(one, body={**one.body, "metadata": meta, "status": status})


NOT_READY: Body = {"type": "Ready", "status": "False"}


def unready(rank: int, **spec: Any) -> RankPod:
    """Return a pod that another container keeps from being Ready, or a field of its spec."""
    main = {"name": "di-container", "ready": True, "state": {"running": {"startedAt": BEGAN}}}
    proxy = {"name": "proxy", "ready": bool(spec), "state": {"running": {"startedAt": BEGAN}}}
    status = {"conditions": [NOT_READY], "containerStatuses": [main, proxy]}
    probed = {"name": "proxy", "readinessProbe": {"exec": {"command": ["false"]}}}
    return pod(rank, status=status, spec={"containers": [{"name": "di-container"}, probed], **spec})


def initializing(since: str = "2026-11-25T11:58:00Z") -> RankPod:
    """Return a pod in which an init container runs."""
    fetch = {"name": "fetch", "ready": False, "state": {"running": {"startedAt": since}}}
    main = {"state": {"waiting": {"reason": "PodInitializing"}}, "ready": False}
    status = {"conditions": [NOT_READY], "initContainerStatuses": [fetch]}
    return pod(0, main=main, status=status, spec={"initContainers": [{"name": "fetch"}]})


def deleted_job(finalizer: str = "example.com/hold") -> Job:
    """Return a job that is being deleted, and that a finalizer keeps."""
    found = job()
    meta = {"deletionTimestamp": "2026-11-25T11:00:00Z", "finalizers": [finalizer]}
    return Job({**found.body, "metadata": {**found.body["metadata"], **meta}})


def large_job() -> Job:
    """Return a job without a status that is almost as large as etcd allows."""
    body = job(phase="").body
    return Job({**body, "metadata": {**body["metadata"], "annotations": {"a": "x" * 1_400_000}}})


OF_STATUS: dict[str, Case] = {
    "a condition that is a problem": Case(
        "status",
        evidence(job(condition("Running", "Blocked", "rank 1: it crashes", "False"))),
        PROBLEM,
        "Running Blocked: rank 1: it crashes",
        "correct the image or the command",
    ),
    "a condition that is no longer a problem": Case(
        "status",
        evidence(job(condition("Invalid", "SpecInvalid", "x", "False"))),
        OK,
        "Running: all",
    ),
    "another controller that has written no status": Case(
        "status",
        evidence(job(phase="", spec={"managedBy": "kueue.x-k8s.io/multikueue"})),
        PROBLEM,
        "spec.managedBy is kueue.x-k8s.io/multikueue: this operator does not",
        "create the job again without spec.managedBy",
    ),
    "no operator": Case(
        "status",
        evidence(job(phase="")),
        PROBLEM,
        "no operator has processed",
        "kubectl get deploy",
    ),
    "a job that is too large for a status": Case(
        "status",
        evidence(large_job()),
        PROBLEM,
        "the job has no status and is 1,4",
        "Move long arguments and variables into a ConfigMap",
    ),
    "a Lease without an operator (H21)": Case(
        "status",
        evidence(job(phase=""), claim=LEASE),
        PROBLEM,
        "no operator has processed the job yet: the Lease dijob-operator has assigned namespace"
        " default to the release mine (since 2026-11-25T11:00:00Z, last renewed"
        " 2026-11-25T12:00:00Z)",
        "kubectl delete lease",
    ),
    "a Lease that the user may not read (H21)": Case(
        "status",
        evidence(job(phase=""), refused={"claim": "leases is forbidden"}),
        PROBLEM,
        "cannot check whether a Lease claims the namespace: leases is forbidden",
        "kubectl get deploy",
    ),
    "a stale status (H21)": Case(
        "status",
        evidence(job(desired=2), pods=[pod(0)], unserved=True, claim=LEASE),
        PROBLEM,
        "no operator is updating the status, which is stale: it reports Running (all 2 ranks are"
        " running), but only 1 of",
        "delete lease",
    ),
    "a claim, and a status that reports a problem (P5)": Case(
        "status",
        evidence(
            job(condition("AddressesReady", "PodDeleted", "rank 1: x", "False"), desired=2),
            pods=[pod(0)],
            unserved=True,
            claim=LEASE,
        ),
        PROBLEM,
        "no operator is updating the status, which is stale: it reports Running (all 2 ranks are"
        " running), but only 1 of 2 pods exist: the Lease dijob-operator has assigned namespace",
        "delete lease",
    ),
    "held by a finalizer (C25)": Case(
        "terminating pods",
        evidence(pods=[pod(0), ending(finalizers=["example.com/hold"])], now=NOW),
        PROBLEM,
        "rank 1: pod test-1 is being deleted: finalizer example.com/hold blocks its deletion",
        "why the finalizer's controller",
    ),
    "held by a container (C41)": Case(
        "terminating pods",
        evidence(pods=[pod(0), ending(container="proxy")], now=NOW),
        PROBLEM,
        "rank 1: pod test-1 is being deleted: container proxy was still running as of the node's"
        " last report, and may run until 2026-11-25T12:05:00Z (grace period: 300 s)",
        "terminationGracePeriodSeconds",
    ),
    "the job cannot recover while the old pod stays (C25)": Case(
        "status",
        evidence(
            job(
                condition(
                    "AddressesReady", "PodDeleted", "its old pod is still terminating", "False"
                )
            ),
            pods=[pod(0), ending(finalizers=["example.com/hold"])],
            now=NOW,
        ),
        PROBLEM,
        "AddressesReady PodDeleted",
        "see the check `terminating pods`",
    ),
    "the job itself is held (C41)": Case(
        "terminating pods",
        evidence(deleted_job(), now=NOW),
        PROBLEM,
        "the job is being deleted: finalizer example.com/hold blocks its deletion",
        "remove the finalizer by hand",
    ),
    "the garbage collector's own finalizer": Case(
        "terminating pods", evidence(deleted_job("foregroundDeletion"), now=NOW), OK, "none"
    ),
    "an old pod that ends soon": Case(
        "terminating pods",
        evidence(pods=[pod(0), ending(until="2026-11-25T12:00:10Z")], now=NOW),
        OK,
        "rank 1: within the grace period",
    ),
    "no node": Case(
        "scheduling",
        evidence(pods=[pod(0), pod(1, status=unschedulable("0/2 nodes: Insufficient cpu"))]),
        PROBLEM,
        "rank 1 cannot be scheduled: 0/2 nodes: Insufficient cpu",
        "lower resources.requests",
    ),
    "a gang without room": Case(
        "scheduling",
        evidence(
            pods=[
                pod(
                    0,
                    spec={"containers": [], "schedulingGroup": {"podGroupName": "job"}},
                    status=unschedulable("minCount (2) cannot be satisfied: 1 scheduled"),
                )
            ]
        ),
        PROBLEM,
        "rank 0 cannot be scheduled: PodGroup job has no room for at least 2 pods",
        "make room for all of them, or lower minReplicas",
    ),
    "a queue that does not exist": Case(
        "scheduling",
        evidence(queue=QueueFinding("team-a", "the queue team-a does not exist (kubectl get q)")),
        PROBLEM,
        "the queue team-a does not exist",
        "create the queue",
    ),
    "a queue whose quota is too small": Case(
        "scheduling",
        evidence(
            job(condition("Suspended", "Queued")),
            pods=[],
            queue=QueueFinding("team-a", misfit="the job can never fit into the ClusterQueue all"),
        ),
        PROBLEM,
        "the job can never fit",
        "ask the administrator of the queue for more quota",
    ),
    "a queue whose quota may not be read": Case(
        "scheduling",
        evidence(
            job(condition("Suspended", "Queued")),
            pods=[],
            queue=QueueFinding("team-a", doubt="whether the quota is large enough"),
        ),
        UNKNOWN,
        "whether the quota is large enough",
    ),
    "a queue whose quota has become too small for a job that is admitted": Case(
        "scheduling",
        evidence(queue=QueueFinding("team-a", misfit="the job can never fit")),
        OK,
        "every pod has a node",
    ),
    "a cluster without PodGroups": Case(
        "status",
        evidence(job(condition("GangScheduled", "NotServed", "no PodGroup", "False"))),
        PROBLEM,
        "GangScheduled NotServed: no PodGroup",
        "enable the API as the message says",
    ),
    "a claim without a volume": Case(
        "scheduling",
        evidence(
            pods=[pod(0, status=unschedulable("pod has unbound immediate PersistentVolumeClaims."))]
        ),
        PROBLEM,
        "rank 0 cannot be scheduled: pod has unbound immediate",
        "a claim has no volume (kubectl get pvc): the cluster needs a StorageClass",
    ),
    "a missing claim": Case(
        "scheduling",
        evidence(pods=[pod(0, status=unschedulable('persistentvolumeclaim "out" not found'))]),
        PROBLEM,
        'persistentvolumeclaim "out" not found',
        "create the claim, or correct its name",
    ),
    "no free port": Case(
        "scheduling",
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
        "push the image",
    ),
    "an image that is perhaps being pulled": Case(
        "images",
        evidence(pods=[creating(0, 31), creating(1, 29)], now=NOW),
        UNKNOWN,
        "rank 0: the container has been waiting to start for more than 30 s: its node may be"
        " pulling image x",
        "wait if the image is large",
    ),
    "a container that has just been created": Case(
        "images",
        evidence(pods=[creating(0, 29)], now=NOW),
        OK,
        "no image pull has failed",
    ),
    "quota": Case(
        "quota",
        evidence(job(condition("PodsCreated", "PodForbidden", "exceeded quota: q", "False"))),
        PROBLEM,
        "exceeded quota: q",
        "raise the quota",
    ),
    "quotas that the user may not list": Case(
        "quota",
        evidence(quotas=None, refused={"quotas": "you cannot list"}),
        UNKNOWN,
        "you cannot list",
        "permission to list resourcequotas",
    ),
    "a quota with room": Case(
        "quota",
        evidence(quotas=[{"metadata": {"name": "q"}}]),
        OK,
        "the quotas of the namespace (q)",
    ),
    "budgets that the user may not list": Case(
        "drains",
        evidence(budgets=None, refused={"budgets": "you cannot list"}),
        UNKNOWN,
        "you cannot list",
        "permission to list poddisruptionbudgets",
    ),
    "a budget of other pods": Case(
        "drains",
        evidence(budgets=[budget({"matchLabels": {"app": "web"}}, 0), budget(None, 0)]),
        OK,
        "no PodDisruptionBudget selects the job's pods",
    ),
    "a budget that allows an eviction": Case(
        "drains",
        evidence(job(desired=2), budgets=[budget({}, 1)]),
        OK,
        "PodDisruptionBudget users allows 1 eviction now",
    ),
    "a budget that waits for a rank": Case(
        "drains",
        evidence(job(desired=2), budgets=[budget({}, 0)]),
        OK,
        "PodDisruptionBudget users allows 0 evictions now",
    ),
    "a budget that counts succeeded ranks": Case(
        "drains",
        evidence(job(desired=2, succeededRanks="1"), budgets=[budget({}, 0)]),
        PROBLEM,
        "the size of the job (2 ranks), but 1 of them have succeeded",
        "use disruptionBudget",
    ),
    "a budget of a part of the job": Case(
        "drains",
        evidence(
            job(desired=2),
            budgets=[budget({"matchLabels": {RANK: "1"}}, 0, minAvailable="50%")],
        ),
        PROBLEM,
        "the budget selects only 1 of them",
        "set the budget's minAvailable to a number",
    ),
    "a budget of a whole job with tasks": Case(
        "drains",
        evidence(tasks_of(3), pods=[pod(0), pod(1), pod(2), pod(3)], budgets=[budget({}, 2)]),
        PROBLEM,
        "allows the wrong number of evictions: Kubernetes computes the number from the size of task"
        " collector (3 ranks), but the budget also selects rank 0",
        "use disruptionBudget",
    ),
    "a budget of the last task": Case(
        "drains",
        evidence(tasks_of(3), pods=[pod(1), pod(2), pod(3)], budgets=[budget({}, 0)]),
        OK,
        "PodDisruptionBudget users allows 0 evictions now",
    ),
    "a budget of the last task, of which a rank has succeeded": Case(
        "drains",
        evidence(
            tasks_of(3, succeededRanks="0,2"),
            pods=[pod(1), pod(2), pod(3)],
            budgets=[budget({}, 0)],
        ),
        PROBLEM,
        "the size of task collector (3 ranks), but 1 of them have succeeded",
        "use disruptionBudget",
    ),
    "a budget with a number": Case(
        "drains",
        evidence(job(desired=2, succeededRanks="1"), budgets=[budget({}, 0, minAvailable=1)]),
        OK,
        "allows 0 evictions now",
    ),
    "two budgets of one pod": Case(
        "drains",
        evidence(budgets=[budget({}, 1), budget({"matchLabels": {RANK: "1"}}, 1, "mine")]),
        PROBLEM,
        "rank 1 cannot be evicted: several PodDisruptionBudgets (users, mine) select the same pod",
        "delete one of the budgets",
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
    "a restart for a new peer list is not a failure": Case(
        "failures", evidence(pods=[pod(0, main=ended(85))]), OK, "no container has failed"
    ),
    "a failure whose pod is gone": Case(
        "failures",
        evidence(job(firstFailure={"rank": 1, "exitCode": 2, "message": "bad"})),
        PROBLEM,
        "rank 1, container di-container, exited 2: bad",
        "--rank 1",
    ),
    "a failure that the kubelet lost track of": Case(
        "failures",
        evidence(
            job(firstFailure={"rank": 0, "exitCode": 3, "message": "no model here"}),
            pods=[pod(0, main=ended(137, "ContainerStatusUnknown"))],
        ),
        PROBLEM,
        "rank 0, container di-container, exited 3: no model here",
        "--rank 0",
    ),
    "out of memory, which the kubelet lost track of": Case(
        "failures",
        evidence(
            job(firstFailure={"rank": 0, "exitCode": 137, "reason": "OOMKilled"}),
            pods=[pod(0, main=ended(137, "ContainerStatusUnknown"))],
        ),
        PROBLEM,
        "ran out of memory",
        "limits.memory",
    ),
    "out of memory, in a container that was restarted and then ended by the operator (X2)": Case(
        "failures",
        evidence(
            job(phase="Failed", firstFailure={"rank": 0, "exitCode": 137, "reason": "OOMKilled"}),
            pods=[pod(0, main=ended(137, "Error"))],
        ),
        PROBLEM,
        "ran out of memory",
        "limits.memory",
    ),
    "a sidecar that exits with the launcher's code": Case(
        "failures",
        evidence(pods=[pod(0, status={"initContainerStatuses": [{"name": "p", **ended(85)}]})]),
        PROBLEM,
        "rank 0, container p, exited 85",
        "logs test-0 -c p",
    ),
    "a main container that restarted for a new peer list": Case(
        "failures", evidence(pods=[pod(0, main=ended(85))]), OK, "no container has failed"
    ),
    "a container whose probe fails": Case(
        "readiness",
        evidence(pods=[unready(0), unready(1)], now=NOW),
        PROBLEM,
        "ranks 0-1: container proxy is not Ready: its readinessProbe is failing",
        "describe pod test-0 shows why",
    ),
    "an init container that does not end": Case(
        "readiness",
        evidence(pods=[initializing()], now=NOW),
        PROBLEM,
        "rank 0: init container fetch has been running since 2026-11-25T11:58Z",
        "logs test-0 -c fetch",
    ),
    "an init container that has just started": Case(
        "readiness", evidence(pods=[initializing("2026-11-25T11:59:40Z")], now=NOW), OK, "no other"
    ),
    "a readiness gate": Case(
        "readiness",
        evidence(pods=[unready(0, readinessGates=[{"conditionType": "a/b"}])], now=NOW),
        PROBLEM,
        "rank 0: readiness gate a/b is not set",
        "remove readinessGates",
    ),
    "a tag that moved": Case(
        "same image",
        evidence(pods=[pod(0), pod(1, main={"imageID": "r/x@sha256:2"})]),
        PROBLEM,
        "x is not the same image on all nodes (rank 0: sha256:1, rank 1: sha256:2)",
        "by its digest",
    ),
    "two ranks on one node's network": Case(
        "host network",
        evidence(
            pods=[pod(0, spec={**HOST, "nodeName": "n"}), pod(1, spec={**HOST, "nodeName": "n"})]
        ),
        PROBLEM,
        "ranks 0-1 use hostNetwork and share the ports of node n",
        "remove hostNetwork",
    ),
    "two ranks on the networks of two nodes": Case(
        "host network", evidence(pods=[pod(0, spec=HOST), pod(1, spec=HOST)]), OK, "no ranks share"
    ),
}
