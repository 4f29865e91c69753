"""What acts have to do with: the jobs' namespace, who leads; and how an act answers."""

from collections.abc import Callable
from dataclasses import dataclass

from leading import Leader
from space import Space

from chaos.shapes import Shape


class Missed(Exception):
    """What was to be hit is not there."""


def nothing() -> None:
    """For what needs not be undone."""


@dataclass(frozen=True)
class Done:
    """What was hit, in words, and what undoes it; `alone`: a leader, and no other operator was
    Ready to follow it.
    """

    hit: str
    undo: Callable[[], None] = nothing
    alone: bool = False


@dataclass(frozen=True)
class Scene:
    """The cluster's jobs, and the operators."""

    space: Space
    leader: Leader
    shapes: tuple[Shape, ...]


Act = Callable[[Scene, str], Done]
