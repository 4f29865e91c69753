"""Chooses the pods that a drill deletes. No I/O."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dijob.api.problems import SpecError
from dijob.cli.errors import CliError, Exit
from dijob.client import Job, RankPod
from dijob.core.members import Gang, compact_ranks, format_ranks, gang_of
from dijob.names import TaskType


class DrillKind(StrEnum):
    """What a drill simulates."""

    RANK = "rank"
    NODE = "node"
    LEARNER = "learner"


@dataclass(frozen=True)
class Victims:
    """The pods to delete, in rank order, and the other ranks that restart with them.

    `node` is the node whose loss is simulated; "" if only one rank is lost.
    """

    pods: tuple[RankPod, ...]
    others: frozenset[int]
    node: str = ""

    @property
    def ranks(self) -> list[int]:
        """The ranks that lose their pods."""
        return [pod.rank for pod in self.pods]

    def describe(self, job: Job) -> str:
        """Return what the drill will do to the job, for the confirmation prompt."""
        shown = [f"pod {pod.name} on node {pod.node or 'unknown'}" for pod in self.pods]
        names = f"{', '.join(shown[:5])}{', ...' if len(shown) > 5 else ''}"
        restart = f"{format_ranks(self.others)} will restart too" if self.others else ""
        if self.others and len(self.others) + len(self.pods) == len(job.ranks):
            restart = "all other ranks will restart too"
        kept = f" The node {self.node} itself is not changed." if self.node else ""
        return (
            f"This drill deletes {format_ranks(self.ranks)} of the running job {job.name} ({names})"
            f"{f', and {restart}' if restart else ''}.{kept}"
        )


def choose_victims(
    job: Job, pods: Sequence[RankPod], kind: DrillKind, rank: int | None = None
) -> Victims:
    """Return the pods to delete. Raises CliError if the state of the job does not allow a drill, or
    if the job has no such rank or task.

    Without `rank`, the running rank with the highest number is chosen. If `kind` is NODE, the node
    that runs the most ranks is chosen instead.
    """
    _check_state(job, pods)
    try:
        gang = gang_of(job.model)
    except SpecError as error:
        raise CliError(
            f"cannot run a drill on job {job.name}: its spec is invalid: {error}"
        ) from error
    if kind is DrillKind.NODE:
        return _of_node(gang, pods, _node_of(pods, rank))
    if kind is DrillKind.LEARNER:
        pods = [pod for pod in pods if _is_learner(gang, pod.rank)]
        if not pods:
            raise CliError(
                f"job {job.name} has no task of type learner: use --rank to choose a rank",
                Exit.USAGE,
            )
    pod = _pod_of(pods, rank)
    return Victims((pod,), _restart_with(gang, [pod.rank]))


def _check_state(job: Job, pods: Sequence[RankPod]) -> None:
    """Raise CliError if the job would not recover, or if its recovery could not be measured."""
    held = job.condition("Paused")
    if job.manager:
        why = f"{job.manager} manages it"
    elif job.finished:
        why = f"it has ended ({job.phase})"
    elif held and held.status == "True":
        why = held.message
    elif not (job.is_true("Running") and job.is_true("PeersReady")) or not pods:
        why = f"not all of its ranks are connected ({job.phase}: {job.message})"
    else:
        return
    raise CliError(f"cannot run a drill on job {job.name}: {why}")


def _pod_of(pods: Sequence[RankPod], rank: int | None) -> RankPod:
    """Return the running pod of a rank. Without `rank`, return the pod of the running rank with the
    highest number.
    """
    found = [pod for pod in pods if rank in (None, pod.rank) and pod.running]
    if not found:
        known = compact_ranks(pod.rank for pod in pods if pod.running)
        which = "no rank" if rank is None else f"rank {rank}"
        verb = "is running" if rank is None else "is not running"
        raise CliError(f"{which} {verb}; running ranks: {known or 'none'}", Exit.NOT_FOUND)
    return found[-1]


def _is_learner(gang: Gang, rank: int) -> bool:
    task = gang.member(rank).task
    return task is not None and task.type is TaskType.LEARNER


def _node_of(pods: Sequence[RankPod], rank: int | None) -> str:
    if rank is not None:
        return _pod_of(pods, rank).node
    number = Counter(pod.node for pod in pods)
    return max(sorted(number), key=lambda node: number[node])


def _of_node(gang: Gang, pods: Sequence[RankPod], node: str) -> Victims:
    found = tuple(pod for pod in pods if pod.node == node and pod.running)
    return Victims(found, _restart_with(gang, [pod.rank for pod in found]), node)


def _restart_with(gang: Gang, lost: Sequence[int]) -> frozenset[int]:
    """Return the other ranks that restart if the ranks in `lost` are lost."""
    if gang.renews_all_on_loss:
        return frozenset(range(gang.size)) - frozenset(lost)
    found, added = frozenset[int](), frozenset(lost)
    # A group restarts as a whole, together with the ranks that connect to it.
    while added - found:
        found |= added
        groups = (range(gang.size)[group.start : group.stop] for group in gang.groups)
        touched = (group for group in groups if not found.isdisjoint(group))
        added = frozenset[int]().union(*map(gang.dialers, found), *touched)
    return found - frozenset(lost)
