"""The objects that faults act on (the jobs' namespace and the leader), and a fault's result."""

from collections.abc import Callable
from dataclasses import dataclass

from leading import Leader
from space import Space

from faults.real_pods.shapes import Shape


class Missed(Exception):
    """Raised if the target of a fault does not exist."""


def nothing() -> None:
    """The undo function of faults that have nothing to undo."""


@dataclass(frozen=True)
class Done:
    """The result of a fault: a description of what it hit, and a function that undoes it. `alone`
    means that it hit the leader while no standby was Ready.
    """

    hit: str
    undo: Callable[[], None] = nothing
    alone: bool = False


@dataclass(frozen=True)
class Scene:
    """The jobs and the operators of the cluster."""

    space: Space
    leader: Leader
    shapes: tuple[Shape, ...]


Act = Callable[[Scene, str], Done]
