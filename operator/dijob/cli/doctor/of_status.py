"""Checks of the API objects: conditions, scheduling, images, quotas, failed containers. No I/O."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from dijob import names, reasons
from dijob.api.limits import LARGE_BYTES, TOO_LARGE_MESSAGE, size_of
from dijob.api.managers import LEFT_ALONE_MESSAGE
from dijob.api.status import Condition, FirstFailure, parse_time
from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.verdict import Finding, ok, problem, unknown
from dijob.client import Job, RankPod
from dijob.core.members import format_count, format_ranks
from dijob.core.observed.complaints import unpulled_image
from dijob.core.observed.endings import how_it_ended, read_ending
from dijob.core.observed.scheduling import IN_GROUP, group_message, pod_condition
from dijob.core.observed.termination import SLACK_SECONDS, Termination, held_by, parse_termination
from dijob.core.observed.unready import find_unready
from dijob.core.observed.views import Unready
from dijob.pod import RENEWAL_CODE
from dijob.reasons import ReasonKind

# The catalog's remedies begin with this text if the user need not act (reasons/progress.py). While
# an old pod cannot terminate, this text is wrong, so doctor replaces such a remedy.
_RECOVERS = "nothing: the job recovers by itself"
_BLOCKED = "the job recovers once the old pod is gone: see the check `terminating pods`"
# The garbage collector of Kubernetes sets and removes these finalizers.
_GC_FINALIZERS = ("foregroundDeletion", "orphan")
# An old pod that terminates within this time is normal, and is not reported.
_SOON_SECONDS = 30.0
# A container that has still not started after this time is reported.
PULL_SECONDS: Final = 30
_PULL_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
# Exit codes that are not failures (143: SIGTERM). In a main container, 85 is not a failure either:
# the launcher exits with it to restart for a new peer list.
_EXPECTED_EXIT_CODES = (0, 143)
# Reasons that the kubelet reports. ContainerStatusUnknown means that the kubelet could not
# determine how the container ended, for example because the pod exceeded its activeDeadlineSeconds.
# For such a container, the job's status has more information about the failure.
_OUT_OF_MEMORY, _UNKNOWN = "OOMKilled", "ContainerStatusUnknown"


def check_conditions(evidence: Evidence) -> Iterator[Finding]:
    """Report the conditions that are problems, with the remedies from the operator's catalog."""
    job = evidence.job
    unserved = not job.manager and (evidence.unserved or not job.status.phase)
    bad = [_unserved_finding(evidence)] if unserved else []
    if job.manager:
        yield _manager_finding(job)
        if not job.status.phase:
            return
    for one in job.status.conditions:
        if not (remedy := _condition_remedy(one)):
            continue
        if remedy.startswith(_RECOVERS):
            # Without an operator, the job does not recover, and the condition may be out of date.
            if unserved:
                continue
            remedy = _BLOCKED if held_ranks(evidence) else remedy
        bad.append(problem(f"{one.type} {one.reason}: {' '.join(one.message.split())}", remedy))
    yield from bad or [ok(f"{job.phase}: {' '.join(job.message.split())}")]


def _manager_finding(job: Job) -> Finding:
    text = LEFT_ALONE_MESSAGE.format(job.manager)
    if job.status.phase:
        return ok(f"{text}; the status comes from {job.manager}")
    return problem(
        f"{text}; {job.manager} has not written a status yet",
        f"check that {job.manager} is running and responsible for this job; if the operator should"
        " manage it, create the job again without spec.managedBy",
    )


def is_problem(condition: Condition) -> bool:
    """Whether the operator's catalog lists the state of this condition as a problem."""
    return bool(_condition_remedy(condition))


def _condition_remedy(condition: Condition) -> str:
    """Return the remedy for a condition that is a problem; "" for any other condition."""
    reason = reasons.find_reason(condition.type, condition.reason)
    entry = reason.entry if reason else None
    # After a problem has ended, its condition has the opposite status, but sometimes the same
    # reason.
    current = entry and entry.status == (condition.status == "True")
    return entry.remedy if entry and current and entry.kind is ReasonKind.PROBLEM else ""


def _unserved_finding(evidence: Evidence) -> Finding:
    """Report that no operator serves the job, and name the Lease that may be the reason.

    A Lease assigns a namespace to one release of the operator. If that release is gone but its
    Lease remains, all other releases ignore the namespace without an error.
    """
    job, space = evidence.job, evidence.job.metadata.namespace
    what = "no operator has processed the job yet"
    if job.status.phase:
        pods = sum(not pod.meta.get("deletionTimestamp") for pod in evidence.pods)
        missing = pods < job.status.desired and not job.is_true("Suspended")
        what = (
            f"no operator is updating the status, which {'is' if missing else 'may be'} stale: it"
            f" reports {job.phase} ({' '.join(job.status.message.split())}),"
            f" {'but only' if missing else 'and'} {pods} of {job.status.desired} pods exist"
        )
    elif (size := size_of(job.body)) > LARGE_BYTES:
        # If the operator cannot write the status, it reports the failure only in an event.
        return problem(
            f"the job has no status and is {size // 1000:,} KB in size, which may leave no room for"
            " a status",
            TOO_LARGE_MESSAGE,
        )
    spec = (evidence.claim or {}).get("spec") or {}
    if holder := str(spec.get("holderIdentity") or ""):
        since = spec.get("acquireTime") or (evidence.claim or {})["metadata"].get(
            "creationTimestamp"
        )
        return problem(
            f"{what}: the Lease {names.CLAIM} has assigned namespace {space} to the release"
            f" {holder} (since {since}, last renewed {spec.get('renewTime')}), so other releases"
            " ignore the namespace",
            f"if that release does not exist, find out which client renews the Lease (kubectl get"
            f" lease -n {space} {names.CLAIM} -o yaml --show-managed-fields), and delete the Lease:"
            f" kubectl delete lease -n {space} {names.CLAIM}",
        )
    refused = evidence.refused.get("claim", "")
    unchecked = f"; doctor cannot check whether a Lease claims the namespace: {refused}"
    return problem(
        what + (unchecked if refused else ""),
        "check that an operator for this namespace is running: kubectl get deploy -A -l"
        " app.kubernetes.io/name=dijob",
    )


def held_ranks(evidence: Evidence) -> Mapping[int, str]:
    """Return the ranks whose old pods will not terminate soon, each with the reason."""
    now = evidence.now
    if now is None:
        return {}
    return {
        pod.rank: f"pod {pod.name} is being deleted: {end.reason(now)}"
        for pod in evidence.pods
        if _does_not_end_soon(end := parse_termination(pod.body), now)
    }


def _does_not_end_soon(end: Termination, now: datetime) -> bool:
    due = parse_time(end.until)
    if due is None:
        return False
    left = (due - now).total_seconds()
    # A pod that has finalizers but no running container remains until the finalizers are removed.
    finalizers_alone = bool(end.finalizers) and not end.running
    return left > _SOON_SECONDS or left < -SLACK_SECONDS or finalizers_alone


def old_pods(evidence: Evidence) -> Iterator[Finding]:
    """Report what keeps the job or its pods from being deleted.

    A rank's new pod has the same name as its old pod. So the new pod cannot be created before the
    old pod is gone.
    """
    meta = evidence.job.body["metadata"]
    finalizers = [one for one in meta.get("finalizers") or () if one not in _GC_FINALIZERS]
    if meta.get("deletionTimestamp") and finalizers:
        yield problem(
            f"the job is being deleted: {held_by(finalizers)}",
            "check why the finalizer's controller does not remove the finalizer; if this controller"
            " no longer exists, remove the finalizer by hand",
        )
    kept = held_ranks(evidence)
    for rank, why in kept.items():
        yield problem(
            f"rank {rank}: {why}",
            "check why the container has not exited, or why the finalizer's controller has not"
            " removed the finalizer; a shorter terminationGracePeriodSeconds in the template limits"
            " the wait",
        )
    ending = sorted(pod.rank for pod in evidence.pods if pod.state == "Terminating")
    if not kept:
        yield ok(f"{format_ranks(ending)}: within the grace period" if ending else "none")


def check_scheduling(evidence: Evidence) -> Iterator[Finding]:
    """Check that every pod has been scheduled to a node."""
    if (queue := evidence.queue) and queue.problem:
        yield problem(queue.problem, f"create the queue, or open it, or change {queue.place}")
    # An admitted job does not need additional quota.
    if queue and evidence.job.is_true("Suspended"):
        if queue.misfit:
            yield problem(
                queue.misfit,
                "lower the requests, replicas or minReplicas, or ask the administrator of the queue"
                " for more quota",
            )
        elif queue.doubt:
            yield unknown(queue.doubt)
    # The scheduler writes the same message for all pods of a template.
    causes = dict[str, list[int]]()
    for pod in evidence.pods:
        for one in (pod.body.get("status") or {}).get("conditions") or ():
            if one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable":
                why = group_message(pod.body.get("spec") or {}, str(one.get("message", "")))
                causes.setdefault(why, []).append(pod.rank)
    for why, ranks in causes.items():
        yield problem(f"{format_ranks(ranks)} cannot be scheduled: {why}", _scheduling_remedy(why))
    if not causes:
        yield ok("every pod has a node") if evidence.pods else unknown("the job has no pods")


def _scheduling_remedy(why: str) -> str:
    # The scheduler's messages are not a stable API, so an unknown one gets a general remedy.
    if "free ports" in why:
        return (
            "with hostNetwork, only one pod per node can use a port: add nodes, remove hostNetwork,"
            " or give the jobs different --ports"
        )
    if "unbound immediate PersistentVolumeClaims" in why:
        return (
            "a claim has no volume (kubectl get pvc): the cluster needs a StorageClass or a"
            " matching PersistentVolume (docs/own-code.md#provision-a-volume)"
        )
    if "persistentvolumeclaim" in why and "not found" in why:
        return "create the claim, or correct its name in the template (kubectl get pvc)"
    if IN_GROUP in why:
        return (
            "the scheduler places either all required pods of a PodGroup at the same time or none"
            " of them: make room for all of them, or lower minReplicas or"
            " spec.scheduling.minAvailable"
        )
    if "Insufficient" in why:
        return (
            "lower resources.requests, add nodes, or lower minReplicas so that the job starts with"
            " fewer ranks"
        )
    return "change nodeSelector, affinity or tolerations, or add matching nodes"


def check_images(evidence: Evidence) -> Iterator[Finding]:
    """Check that the images of all containers can be pulled."""
    causes = dict[tuple[str, str, str], list[int]]()
    for pod, one in evidence.containers():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _PULL_REASONS:
            # A registry may answer with an HTML page.
            message = " ".join(str(waiting.get("message", "")).split())[:300]
            image = unpulled_image(pod.body.get("spec") or {}, one)
            causes.setdefault((image, waiting["reason"], message), []).append(pod.rank)
    for (image, reason, message), ranks in causes.items():
        yield problem(
            f"{format_ranks(ranks)}: image {image} cannot be pulled ({reason}): {message}",
            "correct the image name, push the image, or add imagePullSecrets to the template",
        )
    slow = _slow_starts(evidence)
    for image, ranks in slow.items():
        yield unknown(
            f"{format_ranks(ranks)}: the container has been waiting to start for more than"
            f" {PULL_SECONDS} s: its node may be pulling image {image}",
            "wait if the image is large, and check its name (kubectl describe pod POD)",
        )
    if not causes and not slow:
        yield ok("no image pull has failed")


def _slow_starts(evidence: Evidence) -> dict[str, list[int]]:
    """Return the ranks whose container has not started, by image. A container is included only if
    its pod has been ready to start containers for more than PULL_SECONDS. The status of a pod does
    not say that an image is being pulled.
    """
    found = dict[str, list[int]]()
    for pod, one in evidence.containers():
        waiting = (one.get("state") or {}).get("waiting") or {}
        ready = pod_condition(pod.body.get("status") or {}, "PodReadyToStartContainers")
        since = parse_time(ready.get("lastTransitionTime", ""))
        if waiting.get("reason") != "ContainerCreating" or ready.get("status") != "True":
            continue
        if since and evidence.now and (evidence.now - since).total_seconds() > PULL_SECONDS:
            image = unpulled_image(pod.body.get("spec") or {}, one)
            found.setdefault(image, []).append(pod.rank)
    return found


def check_quota(evidence: Evidence) -> Iterator[Finding]:
    """Check that no ResourceQuota rejects the job's pods."""
    # The operator's conditions quote the API error of a rejected pod.
    messages = [
        one.message for one in evidence.job.status.conditions if "exceeded quota" in one.message
    ]
    if messages:
        yield problem(
            " ".join(messages[0].split()),
            "raise the quota, delete other pods that use it (kubectl get pods), or lower the job's"
            " requests",
        )
    elif evidence.quotas is None:
        yield unknown(
            evidence.refused.get("quotas", ""),
            "ask your administrator for permission to list resourcequotas",
        )
    elif names := [str(one["metadata"]["name"]) for one in evidence.quotas]:
        yield ok(f"no pod was rejected by the quotas of the namespace ({', '.join(names)})")
    else:
        yield ok("the namespace has no quota")


def check_failures(evidence: Evidence) -> Iterator[Finding]:
    """Report how containers failed.

    In a failed job, the operator stops the pod of the failed container without deleting the pod, so
    that the log is kept. The container may have restarted between its failure and this stop. Then
    its last termination was caused by the operator, not by the failure. So this check uses the
    failure that the job's status records.
    """
    status = evidence.job.status
    first, failed = status.first_failure, status.phase == names.Phase.FAILED
    found = bool(first and failed)
    if first and failed:
        yield _first_failure(evidence, first)
    for pod, one in evidence.containers():
        if first and failed and (pod.rank, one["name"]) == _failed_container(first, pod.container):
            continue
        # The current termination takes precedence over the previous one. One finding per container
        # is enough.
        for key in ("state", "lastState"):
            end = (one.get(key) or {}).get("terminated") or {}
            code = end.get("exitCode", 0)
            reason = end.get("reason")
            if (
                not end
                or reason == _UNKNOWN
                or (_is_expected(code, one["name"] == pod.container) and reason != _OUT_OF_MEMORY)
            ):
                continue
            found = True
            where = f"rank {pod.rank}, container {one['name']},"
            ended = read_ending(pod.body.get("spec") or {}, one, end)
            other = "" if one["name"] == pod.container else str(one["name"])
            logs = _logs_command(evidence, pod.rank, pod.name, other)
            previous = " --previous" if ended.runs_again else ""
            yield _failure_finding(f"{where} {ended.words}", str(reason), logs + previous)
            break
    if first and not found:
        found = True
        yield _first_failure(evidence, first)
    if not found:
        yield ok("no container has failed")


def _is_expected(code: int, in_main: bool) -> bool:
    return code in _EXPECTED_EXIT_CODES or (in_main and code == RENEWAL_CODE)


def check_readiness(evidence: Evidence) -> Iterator[Finding]:
    """Report what keeps a rank's pod from being Ready, apart from the rank's program."""
    causes = dict[str, list[RankPod]]()
    for pod in evidence.pods:
        spec, status = pod.body.get("spec") or {}, pod.body.get("status") or {}
        found = find_unready(spec, status, pod.container)
        if found and not pod.meta.get("deletionTimestamp") and _is_lasting(evidence, pod, found):
            causes.setdefault(found.text, []).append(pod)
    for text, pods in causes.items():
        first = pods[0]
        found = find_unready(first.body["spec"], first.body["status"], first.container)
        yield problem(
            f"{format_ranks([pod.rank for pod in pods])}: {text}", _unready_remedy(first, found)
        )
    if not causes:
        yield ok("no other container and no readiness gate keeps a pod from being Ready")


def _is_lasting(evidence: Evidence, pod: RankPod, found: Unready) -> bool:
    created = str(pod.meta.get("creationTimestamp") or "")
    since = parse_time(found.since) or pod.begun or parse_time(created)
    if since is None or evidence.now is None:
        return True
    return (evidence.now - since).total_seconds() > _SOON_SECONDS


def _unready_remedy(pod: RankPod, found: Unready | None) -> str:
    space = pod.meta.get("namespace") or "default"
    if found and found.probe:
        return (
            f"kubectl -n {space} describe pod {pod.name} shows why the probe fails: fix the"
            " probe in the template, or the container that it checks"
        )
    if found and found.container:
        return f"kubectl -n {space} logs {pod.name} -c {found.container}"
    return (
        "install the controller that sets this pod condition, or remove readinessGates from the"
        " template"
    )


def _failed_container(first: FirstFailure, main: str) -> tuple[int, str]:
    return first.rank, first.container or main


def _first_failure(evidence: Evidence, first: FirstFailure) -> Finding:
    where = f"rank {first.rank}, container {first.container or names.MAIN_CONTAINER},"
    words = how_it_ended(first.exit_code, first.signal, first.reason, first.message, first.cause)
    logs = _logs_command(evidence, first.rank, first.pod, first.container)
    return _failure_finding(f"{where} {words}", first.reason, logs)


def _failure_finding(text: str, reason: str, logs: str) -> Finding:
    if reason == _OUT_OF_MEMORY:
        return problem(
            text,
            "raise resources.limits.memory, or use less memory, for example with a smaller replay"
            " buffer or fewer environments",
        )
    return problem(text, logs)


def _logs_command(evidence: Evidence, rank: int, pod: str, container: str) -> str:
    """Return the command that prints the log of a container.

    `container` is "" for the main container.

    `kubectl dijob logs` reads main containers only.
    """
    if container:
        return f"kubectl -n {evidence.job.metadata.namespace} logs {pod} -c {container}"
    return f"kubectl dijob logs {evidence.job.name} --rank {rank}"


def same_image(evidence: Evidence) -> Iterator[Finding]:
    """Check that an image name refers to the same image on all nodes.

    A tag that was pushed again can refer to two images: a node with a cached copy does not pull the
    new image.
    """
    found = dict[str, dict[str, list[int]]]()
    for pod, one in evidence.containers():
        # A sidecar that the cluster injects may differ between nodes, so only main containers are
        # compared. Container runtimes report the digest with or without the image's name.
        if one.get("imageID") and one.get("name") == pod.container:
            digest = re.sub(r"^.*@", "", str(one["imageID"]))
            found.setdefault(str(one.get("image")), {}).setdefault(digest, []).append(pod.rank)
    bad = {image: ids for image, ids in found.items() if len(ids) > 1}
    for image, ids in bad.items():
        each = ", ".join(f"{format_ranks(ranks)}: {one[:19]}" for one, ranks in ids.items())
        yield problem(
            f"{image} is not the same image on all nodes ({each})",
            "name the image by its digest, or give each build its own tag; then kubectl dijob"
            f" restart {evidence.job.name}",
        )
    if not bad:
        yield (
            ok(f"{format_count(len(found), 'image')}, the same on all nodes")
            if found
            else unknown("no container has started")
        )


def host_network(evidence: Evidence) -> Iterator[Finding]:
    """Check that no two ranks with hostNetwork share a node."""
    on_host = [pod for pod in evidence.pods if pod.body.get("spec", {}).get("hostNetwork")]
    nodes = dict[str, list[int]]()
    for pod in on_host:
        if pod.node:
            nodes.setdefault(pod.node, []).append(pod.rank)
    for node, ranks in nodes.items():
        if len(ranks) > 1:
            yield problem(
                f"{format_ranks(ranks)} use hostNetwork and share the ports of node {node}",
                "remove hostNetwork, or spread the ranks across nodes",
            )
    if all(len(ranks) == 1 for ranks in nodes.values()):
        yield ok("no ranks share a node's ports" if on_host else "hostNetwork is not used")
