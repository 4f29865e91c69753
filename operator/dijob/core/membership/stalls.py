"""Determines when the training of a job stopped making progress, and which ranks hold it up.

The time without progress is derived from the status and from the reports of the launchers. The
launchers report how long ago their programs made progress. So the time does not depend on how long
an operator has been running. It counts only while all ranks are Ready, from the moment when the
last of them became Ready (docs/decisions/064).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from dijob.api.model import DIJob
from dijob.api.status import parse_time
from dijob.core.membership.world import World
from dijob.core.observed.progress import JobProgress, RankProgress
from dijob.names import Activity

# A launcher reports in whole seconds how long ago its program made progress. A status also stores
# times in whole seconds. Two times that differ by at most this many seconds count as the same.
ROUNDING_SECONDS = 2.0
# If the training process spends at least this percentage of its time waiting for data, the other
# ranks hold it up. The 30 s average (dijob_runtime/waiting.py) reaches this percentage 70 s after
# the last data has arrived.
WAITING_PERCENT = 90


@dataclass(frozen=True)
class Standstill:
    """The time since the last progress of a job whose ranks are all Ready.

    `seconds` is how long ago `since` was. `iteration` is the last iteration that was reported.
    `known`: the status already contains a stall that began at `since`. `moved`: the training has
    made progress since all ranks became Ready. `direct`: the launchers of all ranks are connected,
    so a lack of reports means that the programs make no progress.
    """

    since: datetime
    seconds: float
    iteration: int | None
    known: bool
    moved: bool
    direct: bool


def find_standstill(
    job: DIJob, world: World, progress: JobProgress, now: datetime
) -> Standstill | None:
    """Return the time since the last progress; None if it is not counted now, or if the job has
    never made progress.
    """
    began = _running_since(job, world)
    if began is None or not (times := list(_times_of_progress(world, progress))):
        return None
    last, stored = max(times), job.status.stall
    since, iteration = max(last, began), progress.iteration
    known_since = parse_time(stored.since) if stored else None
    known = known_since is not None and (since - known_since).total_seconds() <= ROUNDING_SECONDS
    if known and known_since is not None and stored:
        since, iteration = known_since, stored.iteration
    return Standstill(
        since=since,
        seconds=(now - since).total_seconds(),
        iteration=iteration,
        known=known,
        moved=last > began,
        direct=all(one and one.connected for _, one in _of_ranks(world, progress)),
    )


def slowest_ranks(world: World, progress: JobProgress) -> frozenset[int]:
    """Return the ranks that hold up the training.

    Normally, only the rank with the lowest iteration is returned. If several ranks have this
    iteration, the one that has made no progress for the longest time is returned. If all training
    ranks are waiting for data, the other ranks are returned. If no rank has made progress since its
    program started, all ranks are returned.
    """
    training = {rank: one for rank, one in _of_ranks(world, progress) if one and one.moved}
    others = frozenset(world.unfinished) - training.keys()
    starved = all((one.waiting_percent or 0) >= WAITING_PERCENT for one in training.values())
    if starved and others:
        return others
    order = sorted(
        (float("inf") if one.iteration is None else one.iteration, one.moved, rank)
        for rank, one in training.items()
        if one.moved
    )
    return frozenset({rank for _, _, rank in order[:1]})


def is_counted(job: DIJob, world: World) -> bool:
    """Whether the time without progress is currently being counted. This function does not check
    whether the job has ever made progress.
    """
    return _running_since(job, world) is not None


def _running_since(job: DIJob, world: World) -> datetime | None:
    """Return the time at which the job's activity became Running. Return None if the time without
    progress is not being counted, for example because a rank is not Ready or the job has no
    stallSeconds.
    """
    spec, status, figures = job.spec, job.status, job.status.goodput
    held = spec.suspend or status.suspend_time or status.ended or job.metadata.deletion_timestamp
    if spec.stall_seconds is None or held or not world.list_is_active or figures is None:
        return None
    # While a rank joins or exits, the activity is still Running.
    if not all((pod := world.pods.get(rank)) and pod.ready for rank in world.unfinished):
        return None
    return parse_time(figures.activity_since) if figures.activity is Activity.RUNNING else None


def _of_ranks(world: World, progress: JobProgress) -> Iterator[tuple[int, RankProgress | None]]:
    return ((rank, progress.ranks.get(rank)) for rank in world.unfinished)


def _times_of_progress(world: World, progress: JobProgress) -> Iterator[datetime]:
    for _, one in _of_ranks(world, progress):
        if one and one.moved:
            yield one.moved
    # The rank that made the progress may have finished. The others may then finish without making
    # any progress.
    if not world.succeeded and (reported := parse_time(progress.reported)):
        yield reported
