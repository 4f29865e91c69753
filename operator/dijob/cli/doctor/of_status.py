"""Checks of what the apiserver knows: conditions, nodes, images, quotas, ends. Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from dijob import names, reasons
from dijob.api.status import FirstFailure, parse_time
from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.verdict import Finding, ok, problem, unknown
from dijob.core.members import count, say
from dijob.core.observed.endings import ending, how_it_ended
from dijob.core.observed.termination import SLACK_SECONDS, Termination, held_by, termination
from dijob.reasons import ReasonKind

_HEALS = "nothing: the job recovers by itself"
_WAITS = "it heals once the old pod is gone: see the line old pods"
# Of its garbage collector, which takes them off.
_OF_KUBERNETES = ("foregroundDeletion", "orphan")
# An old pod that ends within this time needs no line of its own.
_SOON_SECONDS = 30.0
_PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
# 85: the launcher starts again with a new list. 143: it was told to end.
_ORDINARY_ENDS = (0, 85, 143)
# The kubelet's words: the second one where it has lost sight of the container, as of one that was
# ended by a deadline. What the job has noted of it before says more.
_OUT_OF_MEMORY, _UNKNOWN = "OOMKilled", "ContainerStatusUnknown"


def conditions(evidence: Evidence) -> Iterator[Finding]:
    """What the operator says already, with the remedy of its catalogue."""
    job = evidence.job
    if evidence.unserved or not job.status.phase:
        yield _unserved(evidence)
        return
    bad = list[Finding]()
    for one in job.status.conditions:
        reason = reasons.find(one.type, one.reason)
        entry = reason.entry if reason else None
        if entry and entry.kind is ReasonKind.PROBLEM and entry.status == (one.status == "True"):
            said = " ".join(one.message.split())
            remedy = _WAITS if held(evidence) and entry.remedy.startswith(_HEALS) else entry.remedy
            bad.append(problem(f"{one.type} {one.reason}: {said}", remedy))
    yield from bad or [ok(f"{job.phase}: {' '.join(job.message.split())}")]


def _unserved(evidence: Evidence) -> Finding:
    """That no operator acts for the job, and which Lease may keep it from that."""
    job, space = evidence.job, evidence.job.metadata.namespace
    what = "no operator has looked at the job yet"
    if job.status.phase:
        there = sum(not pod.meta.get("deletionTimestamp") for pod in evidence.pods)
        what = (
            f"the status is old, and no operator updates it: it says {job.phase}"
            f" ({job.status.message}), and {count(there, 'pod')} of {job.status.desired} is there"
        )
    spec = (evidence.claim or {}).get("spec") or {}
    if holder := str(spec.get("holderIdentity") or ""):
        since = spec.get("acquireTime") or (evidence.claim or {})["metadata"].get(
            "creationTimestamp"
        )
        return problem(
            f"{what}: in namespace {space}, Lease {names.CLAIM} says that the release {holder}"
            f" serves it, since {since} (renewed {spec.get('renewTime')}), so other releases leave"
            " the namespace alone",
            f"if there is no such release, find out who renews the Lease (kubectl get lease -n"
            f" {space} {names.CLAIM} -o yaml --show-managed-fields) and delete it:"
            f" kubectl delete lease -n {space} {names.CLAIM}",
        )
    refused = evidence.refused.get("claim", "")
    return problem(
        what + (f"; whether a Lease claims the namespace is unknown: {refused}" if refused else ""),
        "see whether one runs for this namespace: kubectl get deploy -A -l"
        " app.kubernetes.io/name=dijob",
    )


def held(evidence: Evidence) -> Mapping[int, str]:
    """The ranks whose old pod does not end by itself, or not soon, and why."""
    now = evidence.now
    if now is None:
        return {}
    return {
        pod.rank: f"pod {pod.name} is being deleted: {end.reason(now)}"
        for pod in evidence.pods
        if _stays(end := termination(pod.body), now)
    }


def _stays(end: Termination, now: datetime) -> bool:
    due = parse_time(end.until)
    if due is None:
        return False
    left = (due - now).total_seconds()
    finalizers_alone = bool(end.finalizers) and not end.running
    return left > _SOON_SECONDS or left < -SLACK_SECONDS or finalizers_alone


def old_pods(evidence: Evidence) -> Iterator[Finding]:
    """What keeps the job or its pods that are being deleted: the job waits for their end."""
    meta = evidence.job.body["metadata"]
    finalizers = [one for one in meta.get("finalizers") or () if one not in _OF_KUBERNETES]
    if meta.get("deletionTimestamp") and finalizers:
        yield problem(
            f"the job is being deleted: {held_by(finalizers)}",
            "see why that controller does not act; without it, take the finalizer off by hand",
        )
    kept = held(evidence)
    for rank, why in kept.items():
        yield problem(
            f"rank {rank}: {why}",
            "see why the container does not end, or why the controller of the finalizer does not"
            " act; a shorter terminationGracePeriodSeconds in the template bounds the wait",
        )
    ending = sorted(pod.rank for pod in evidence.pods if pod.state == "Terminating")
    if not kept:
        yield ok(f"{say(ending)}: ends within its grace period" if ending else "no old pod remains")


def schedule(evidence: Evidence) -> Iterator[Finding]:
    """Whether every pod has a node."""
    causes = dict[str, list[int]]()
    for pod in evidence.pods:
        for one in (pod.body.get("status") or {}).get("conditions") or ():
            if one.get("type") == "PodScheduled" and one.get("reason") == "Unschedulable":
                causes.setdefault(str(one.get("message", "")), []).append(pod.rank)
    for why, ranks in causes.items():
        yield problem(f"{say(ranks)} found no node: {why}", _room(why))
    if not causes:
        yield ok("every pod that is there has a node") if evidence.pods else unknown("no pods")


def _room(why: str) -> str:
    if "free ports" in why:
        return (
            "with hostNetwork a node has each port once: add nodes, or leave hostNetwork out, or"
            " give the jobs different --ports"
        )
    if "unbound immediate PersistentVolumeClaims" in why:
        return (
            "a claim has no volume: kubectl get pvc; the cluster needs a StorageClass, or a"
            " PersistentVolume that fits (docs/own-code.md#provision-a-volume)"
        )
    if "persistentvolumeclaim" in why and "not found" in why:
        return "make the claim, or correct its name in the template: kubectl get pvc"
    if "Insufficient" in why:
        return (
            "ask for less in resources.requests, add nodes, or lower minReplicas so that the job"
            " begins with fewer ranks"
        )
    return "change nodeSelector, affinity or tolerations, or add nodes that fit"


def images(evidence: Evidence) -> Iterator[Finding]:
    """Whether each image can be pulled."""
    causes = dict[tuple[str, str, str], list[int]]()
    for pod, one in evidence.containers():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _PULL:
            said = " ".join(str(waiting.get("message", "")).split())[:300]
            causes.setdefault((str(one.get("image")), waiting["reason"], said), []).append(pod.rank)
    for (image, reason, said), ranks in causes.items():
        yield problem(
            f"{say(ranks)}: image {image} cannot be pulled ({reason}): {said}",
            "correct the image's name, push it, or add imagePullSecrets to the template",
        )
    if not causes:
        yield ok("no image is missing")


def quota(evidence: Evidence) -> Iterator[Finding]:
    """Whether a quota keeps pods away."""
    said = [
        one.message for one in evidence.job.status.conditions if "exceeded quota" in one.message
    ]
    if said:
        yield problem(
            " ".join(said[0].split()),
            "raise the quota, delete what else uses it (kubectl get pods), or ask for less",
        )
    elif evidence.quotas is None:
        yield unknown(
            evidence.refused.get("quotas", ""), "ask for the right to list resourcequotas"
        )
    elif names := [str(one["metadata"]["name"]) for one in evidence.quotas]:
        yield ok(f"no pod was refused by the quotas of the namespace ({', '.join(names)})")
    else:
        yield ok("the namespace has no quota")


def ends(evidence: Evidence) -> Iterator[Finding]:
    """How containers have ended, memory first.

    In a job that has failed, the newest end of the container that failed is the operator's doing:
    it ends the pod so that the log stays. The status keeps how it failed.
    """
    status = evidence.job.status
    first, failed = status.first_failure, status.phase == names.Phase.FAILED
    found = bool(first and failed)
    if first and failed:
        yield _first_failure(evidence, first)
    for pod, one in evidence.containers():
        if first and failed and (pod.rank, one["name"]) == _place(first, pod.container):
            continue
        for key in ("state", "lastState"):
            end = (one.get(key) or {}).get("terminated") or {}
            code = end.get("exitCode", 0)
            reason = end.get("reason")
            if (
                not end
                or reason == _UNKNOWN
                or (code in _ORDINARY_ENDS and reason != _OUT_OF_MEMORY)
            ):
                continue
            found = True
            where = f"rank {pod.rank}, container {one['name']},"
            ended = ending(pod.body.get("spec") or {}, one, end)
            other = "" if one["name"] == pod.container else str(one["name"])
            logs = _logs(evidence, pod.rank, pod.name, other)
            previous = " --previous" if ended.runs_again else ""
            yield _ended(f"{where} {ended.words}", str(reason), logs + previous)
            break
    if first and not found:
        found = True
        yield _first_failure(evidence, first)
    if not found:
        yield ok("no container has failed")


def _place(first: FirstFailure, main: str) -> tuple[int, str]:
    return first.rank, first.container or main


def _first_failure(evidence: Evidence, first: FirstFailure) -> Finding:
    where = f"rank {first.rank}, container {first.container or names.MAIN_CONTAINER},"
    words = how_it_ended(first.exit_code, first.signal, first.reason, first.message, first.cause)
    logs = _logs(evidence, first.rank, first.pod, first.container)
    return _ended(f"{where} {words}", first.reason, logs)


def _ended(text: str, reason: str, logs: str) -> Finding:
    if reason == _OUT_OF_MEMORY:
        return problem(
            text,
            "raise resources.limits.memory, or use less: a smaller replay buffer, fewer"
            " environments",
        )
    return problem(text, logs)


def _logs(evidence: Evidence, rank: int, pod: str, container: str) -> str:
    """How to read the log of a container; "" is the main one."""
    if container:
        return f"kubectl -n {evidence.job.metadata.namespace} logs {pod} -c {container}"
    return f"kubectl dijob logs {evidence.job.name} --rank {rank}"


def same_image(evidence: Evidence) -> Iterator[Finding]:
    """Whether one name of an image is one image everywhere."""
    found = dict[str, dict[str, list[int]]]()
    for pod, one in evidence.containers():
        if one.get("imageID") and one.get("name") == pod.container:
            digest = re.sub(r"^.*@", "", str(one["imageID"]))
            found.setdefault(str(one.get("image")), {}).setdefault(digest, []).append(pod.rank)
    bad = {image: ids for image, ids in found.items() if len(ids) > 1}
    for image, ids in bad.items():
        each = ", ".join(f"{say(ranks)}: {one[:19]}" for one, ranks in ids.items())
        yield problem(
            f"{image} is not the same image on all nodes ({each})",
            "name the image by its digest, or give each build a tag of its own; then kubectl dijob"
            f" restart {evidence.job.name}",
        )
    if not bad:
        yield (
            ok(f"{count(len(found), 'image')}, the same on all nodes")
            if found
            else unknown("no container has started")
        )


def host_network(evidence: Evidence) -> Iterator[Finding]:
    """Whether ranks in their nodes' network are in each other's way."""
    on_host = [pod for pod in evidence.pods if pod.body.get("spec", {}).get("hostNetwork")]
    nodes = dict[str, list[int]]()
    for pod in on_host:
        if pod.node:
            nodes.setdefault(pod.node, []).append(pod.rank)
    for node, ranks in nodes.items():
        if len(ranks) > 1:
            yield problem(
                f"{say(ranks)} share node {node} and its ports, with hostNetwork",
                "leave hostNetwork out, or spread the ranks over nodes",
            )
    if all(len(ranks) == 1 for ranks in nodes.values()):
        yield ok("each rank has a node's ports alone" if on_host else "hostNetwork is not used")
