"""The part of a DIJob's status that its program reports through the HTTP server. The operator reads
and writes none of it.
"""

from typing import Annotated, Any

from pydantic import Field

from dijob.api.status import Name, Number, Stored, Time

MOST_PROFILINGS = 8


class Progress(Stored):
    """How far the training is, as one of its processes has said."""

    line: Annotated[str, Field(max_length=256)] = ""
    """All of it in one line, for people."""
    iteration: Number | None = None
    """The training iteration."""
    env_step: Number | None = None
    """Steps of the environment so far."""
    episode_return: float | None = None
    """The last return of an episode."""
    time: Time = ""
    """When the last of it was reported."""
    written: Time = ""
    """When it was written here."""


class Profiling(Stored):
    """What a process has posted to .../profilings."""

    pod: Name = ""
    """Its pod; empty where a person has posted it."""
    time: Time = ""
    """When it came."""
    data: dict[str, Any] = Field(default_factory=dict)
    """What it has posted."""


class Reported(Stored):
    """What the job's processes have told the HTTP server."""

    progress: Progress | None = None
    """How far the training is, as its program says: written at most once a minute."""
    profilings: Annotated[tuple[Profiling, ...], Field(max_length=MOST_PROFILINGS)] = ()
    """The last profilings that were posted."""


def in_words(progress: Progress) -> str:
    """All of it in one line."""
    parts = (
        ("iter {}", progress.iteration),
        ("step {}", progress.env_step),
        ("return {:.4g}", progress.episode_return),
    )
    return ", ".join(text.format(value) for text, value in parts if value is not None)
