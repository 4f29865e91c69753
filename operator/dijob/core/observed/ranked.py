"""The pods of a job by rank, with what they tell of each other."""

from collections.abc import Iterable
from dataclasses import replace

from dijob.core.members import Gang
from dijob.core.observed.views import Pod


def by_rank(pods: Iterable[Pod], gang: Gang) -> tuple[dict[int, Pod], tuple[Pod, ...]]:
    """The pods of a gang by rank, and those of its job that none of its ranks has."""
    ranked, unranked = dict[int, Pod](), list[Pod]()
    for pod in pods:
        if (rank := gang.rank_of(pod.name)) < 0:
            unranked.append(pod)
        else:
            ranked[rank] = pod if pod.rank == rank else replace(pod, rank=rank)
    return _with_images_of_others(ranked), tuple(unranked)


def _with_images_of_others(pods: dict[int, Pod]) -> dict[int, Pod]:
    """The pods; one whose own gate has not started yet has its image nevertheless where another pod
    of the job uses that image on the same node.

    So a rank that is lost gets its address list a second earlier: the kubelet shows the list when
    it starts the gate, and not only when it looks again.
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
            # What it lacked to arrive was the later of the two.
            arrived = max(there, pod.placement.placed)
            containers = replace(pod.containers, unstarted=False, gate_started=arrived)
            found[pod.rank] = replace(pod, containers=containers)
    return found
