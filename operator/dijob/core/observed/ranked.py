"""Assigns the pods of a job to its ranks, and lets pods on the same node share what is known about
their image.
"""

from collections.abc import Iterable
from dataclasses import replace

from dijob.core.addresses import ListCopy
from dijob.core.members import Gang
from dijob.core.observed.containers import Containers
from dijob.core.observed.views import Pod

FOREIGN = "its pod was not created by the operator, and is being replaced"


def by_rank(pods: Iterable[Pod], gang: Gang) -> tuple[dict[int, Pod], tuple[Pod, ...]]:
    """Return the pods of a gang by rank, and the job's pods that have no rank in the gang."""
    ranked, unranked = dict[int, Pod](), list[Pod]()
    for pod in pods:
        if (rank := gang.rank_of(pod.name)) < 0:
            unranked.append(pod)
        else:
            known = _without_claims(pod) if pod.made.foreign else pod
            ranked[rank] = known if known.rank == rank else replace(known, rank=rank)
    return _with_images_of_others(ranked), tuple(unranked)


def _without_claims(pod: Pod) -> Pod:
    """Return a foreign pod without its address, state, peer list and containers. If the pod kept
    these facts, it could join a peer list, or could count as a success or failure of its rank. A
    pod is foreign if a client other than the operator has created it. A foreign pod only occupies
    the name of the rank's pod, and is deleted (world.py).

    Any user who may create pods can create a foreign pod: the names of the job's pods are
    predictable, and the pod's owner reference can name the job.
    """
    return replace(
        pod,
        ip="",
        phase="Pending",
        ready=False,
        ending_soon=False,
        complaint=FOREIGN,
        copy=ListCopy(),
        containers=Containers(),
    )


def _with_images_of_others(pods: dict[int, Pod]) -> dict[int, Pod]:
    """Return the pods. A pod whose gate has not started yet is treated as arrived if another pod of
    the job uses the same image on the same node.

    As a result, the peer list is published a second earlier after a loss. The kubelet then has the
    list when it starts the gate of the new pod, rather than only at its next periodic sync.
    """
    waiting = [p for p in pods.values() if p.ip and p.made.image and p.containers.unstarted]
    if not waiting:
        return pods
    since = {
        (p.placement.node, p.made.image): p.containers.gate_started
        for p in pods.values()
        if (p.containers.gated or p.containers.started) and not p.deleting
    }
    found = dict(pods)
    for pod in waiting:
        there = since.get((pod.placement.node, pod.made.image))
        if there is not None:
            # The pod arrived at the later of two times: when the image was on the node, and when
            # the pod was bound to that node.
            arrived = max(there, pod.placement.placed)
            containers = replace(pod.containers, unstarted=False, gate_started=arrived)
            found[pod.rank] = replace(pod, containers=containers)
    return found
