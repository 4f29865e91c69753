"""The part of a DIJob's status that its program reports, through the launchers of its pods or
through the HTTP server.

The plan of a job neither reads nor writes these fields. They have a separate model, so that a
status written by the plan cannot overwrite them.
"""

from typing import Annotated, Any

from pydantic import Field

from dijob.api.status import Name, Number, Stored, Time

MOST_PROFILINGS = 8

Percent = Annotated[int, Field(ge=0, le=100)]


class Progress(Stored):
    """The training's progress, as its processes report it."""

    line: Annotated[str, Field(max_length=256)] = ""
    """A one-line, human-readable summary of the other fields."""
    iteration: Number | None = None
    """The training iteration."""
    repeated_iterations: Number | None = None
    """Number of iterations that the program repeated because restarts had lost them. It is computed
    from the progress reports, so it is a lower bound."""
    env_step: Number | None = None
    """Number of environment steps so far."""
    episode_return: float | None = None
    """The return of the last episode, or the mean return of the last evaluation."""
    waiting_percent: Percent | None = None
    """The percentage of time for which the training process waits for data from other processes,
    averaged over about 30 s."""
    buffer_percent: Percent | None = None
    """How full the replay buffer is, in percent."""
    signal: float | None = None
    """Any number that the program reports for an autoscaler."""
    time: Time = ""
    """When the program last made progress or reported new values."""
    written: Time = ""
    """When the values were written to the status."""


class Profiling(Stored):
    """An object that a process posted to .../profilings."""

    pod: Name = ""
    """The pod whose process posted the object. Empty if a person posted the object."""
    time: Time = ""
    """When the object was received."""
    data: dict[str, Any] = Field(default_factory=dict)
    """The posted object."""


class Reported(Stored):
    """The values that the job's processes have reported."""

    progress: Progress | None = None
    """The training progress that the program reports."""
    profilings: Annotated[tuple[Profiling, ...], Field(max_length=MOST_PROFILINGS)] = ()
    """The most recent objects that were posted to .../profilings."""


def in_words(progress: Progress) -> str:
    """Return the values of a progress report in one line. Absent values are left out."""
    parts = (
        ("iter {}", progress.iteration),
        ("step {}", progress.env_step),
        ("return {:.4g}", progress.episode_return),
    )
    return ", ".join(text.format(value) for text, value in parts if value is not None)


def count_repeated(old: Progress, new: Progress, restarted: bool) -> int | None:
    """Return the job's total of repeated iterations after the second of two successive reports;
    None if it is 0. `restarted` says whether a program of the job has restarted between the two
    reports.

    Without a restart, a smaller iteration number has another cause, for example two processes that
    both report.
    """
    repeated = old.repeated_iterations or 0
    if restarted and old.iteration is not None and new.iteration is not None:
        repeated += max(0, old.iteration - new.iteration)
    return min(repeated, 2**53) or None


def repeated_share(progress: Progress | None) -> float:
    """Return the repeated iterations as a fraction (0 to 1) of all iterations."""
    repeated = (progress.repeated_iterations if progress else None) or 0
    done = (progress.iteration if progress else None) or 0
    return repeated / (done + repeated) if repeated else 0.0
