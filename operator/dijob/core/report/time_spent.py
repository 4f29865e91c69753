"""Computes how a job has spent its time.

The result is the sum of the figures that the operator has stored (goodput.py) and the time of the
current activity.

The command line and the page use this module, so that they show the same numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dijob.api.status import Interruption, Status, parse_time
from dijob.core.report.goodput import begin_count, seconds_since
from dijob.names import Activity

COUNTED = (Activity.RUNNING, Activity.STARTING, Activity.RECOVERING, Activity.WAITING)


@dataclass(frozen=True)
class TimeSpent:
    """The seconds of each activity since `since`. They add up to `total`.

    `repeated` is the part of the Running seconds in which the job repeated work that a restart had
    lost. `interruptions` contains the most recent interruptions, oldest first. `earlier_count` is
    the number of interruptions before these.
    """

    since: str
    activity: Activity
    seconds: Mapping[Activity, int]
    repeated: int
    interruptions: tuple[Interruption, ...]
    earlier_count: int

    @property
    def total(self) -> int:
        """The wall time in seconds."""
        return sum(self.seconds.values())

    @property
    def productive(self) -> int:
        """The seconds in which all ranks were Ready and the job made progress."""
        return self.seconds[Activity.RUNNING] - self.repeated

    @property
    def earlier_seconds(self) -> int:
        """The total seconds of the older interruptions, which `interruptions` does not list."""
        known = sum(one.seconds for one in self.interruptions)
        return max(0, self.seconds[Activity.RECOVERING] - known)


def read_time_spent(
    status: Status, created: str, now: datetime, repeated_share: float = 0.0
) -> TimeSpent | None:
    """Return how the job has spent its time; None if no operator has counted it.

    `created` is when the job was created. `repeated_share` is the share of the iterations that were
    repeated after a restart.
    """
    figures = status.goodput or begin_count(status, created, now)
    if figures is None:
        return None
    past = {each: getattr(figures, f"{each.lower()}_seconds") for each in COUNTED}
    interruptions = figures.last_interruptions
    if figures.activity in past:
        passed = seconds_since(figures.activity_since, now)
        past[figures.activity] += passed
        if figures.activity is Activity.RECOVERING and interruptions:
            last = interruptions[-1]
            present = last.model_copy(update={"seconds": last.seconds + passed})
            interruptions = (*interruptions[:-1], present)
    return TimeSpent(
        since=figures.since,
        activity=figures.activity,
        seconds=past,
        repeated=int(past[Activity.RUNNING] * min(max(repeated_share, 0.0), 1.0)),
        interruptions=interruptions,
        earlier_count=max(0, figures.interruptions - len(interruptions)),
    )


def has_restarted_since(status: Status, time: str) -> bool:
    """Whether programs of the job may have restarted since this time, according to the status."""
    since, figures = parse_time(time), status.goodput
    if since is None or figures is None:
        return False
    if figures.activity in (Activity.RECOVERING, Activity.STARTING, Activity.WAITING):
        return True
    resumed = parse_time(status.resume_time)
    if resumed and resumed >= since:
        return True
    return any(
        (begin := parse_time(one.time)) and since - begin <= timedelta(seconds=one.seconds)
        for one in figures.last_interruptions
    )
