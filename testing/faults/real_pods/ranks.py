"""Checks that no rank exists twice among the pods of a watch or among running programs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Body = Mapping[str, Any]
JOB_LABEL, RANK_LABEL = "diengine.opendilab.org/job", "diengine.opendilab.org/rank"


def violations(events: Iterable[tuple[float, str, Body]], sizes: Mapping[str, int]) -> list[str]:
    """Describe each event after which two pods of a job had the same rank, or a pod had a rank
    outside of 0 to n-1. Pods that are being deleted or have finished do not count.
    """
    # The pods that are counted, by job and uid, updated with each event.
    alive: dict[tuple[str, str], tuple[str, str]] = {}
    wrong = []
    for _, kind, pod in events:
        meta = pod["metadata"]
        labels = meta.get("labels", {})
        if JOB_LABEL not in labels or RANK_LABEL not in labels:
            continue
        uid, owner = meta["uid"], labels[JOB_LABEL]
        # A pod that is being deleted no longer counts as its rank's pod.
        over = kind == "DELETED" or "deletionTimestamp" in meta
        if over or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            alive.pop((owner, uid), None)
            continue
        alive[owner, uid] = (labels[RANK_LABEL], meta["name"])
        wrong += [f"after {meta['name']}: {said}" for said in _wrong(owner, alive, sizes)]
    return wrong


def _wrong(
    owner: str, alive: Mapping[tuple[str, str], tuple[str, str]], sizes: Mapping[str, int]
) -> list[str]:
    ranks = Counter(rank for (job, _), (rank, _) in alive.items() if job == owner)
    known = {str(rank) for rank in range(sizes[owner])}
    twice = [f"rank {rank} of {owner} exists {n} times" for rank, n in ranks.items() if n > 1]
    beyond = [f"{owner} has a rank {rank}" for rank in ranks if rank not in known]
    return twice + beyond


def two_at_once(running: Mapping[tuple[str, str], set[str]]) -> list[str]:
    """Describe the ranks whose programs run in more than one pod. `running` maps a job's uid and a
    rank to the uids of the pods.
    """
    return [
        f"rank {rank} of job {job} runs in pods {sorted(pods)}"
        for (job, rank), pods in sorted(running.items())
        if len(pods) > 1
    ]
