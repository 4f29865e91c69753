"""How many failures a job must have been charged, by what has been done to it."""

from collections.abc import Iterable
from dataclasses import dataclass

from chaos.kinds import Level
from chaos.plan import Fault
from chaos.shapes import Shape, owner


@dataclass(frozen=True)
class Done:
    """A fault that was carried out: when it began and ended (seconds of the run), what it hit in
    truth, or why it hit nothing (`missed`); `alone` as in scene.Done.
    """

    wave: int
    fault: Fault
    began: float
    ended: float
    hit: str = ""
    missed: str = ""
    alone: bool = False


def touches(shapes: Iterable[Shape], done: Done, job: str) -> bool:
    """Whether a fault may have hit a job: its pod, or a node, which all jobs use."""
    level = done.fault.is_a.level
    if level is Level.POD:
        return owner(shapes, done.fault.target).name == job
    return level is Level.NODE


def charges(shapes: Iterable[Shape], wave: Iterable[Done], job: str) -> tuple[int, int]:
    """The fewest and the most failures that one wave's faults may cost a job.

    Program failures are charged, and nothing else (docs/tasks.md). One that was the only fault that
    touched the job in its wave costs exactly one. Beside others it may cost nothing: a program
    that is to begin anew anyway, or whose Redis server is away, is not charged. A program of torch
    that fails of its peer's loss before that is known has failed (docs/runtimes.md).
    """
    shapes = tuple(shapes)
    own = [done for done in wave if not done.missed and touches(shapes, done, job)]
    surely = sum(_costs(shapes, done) for done in own)
    together = next(shape.together for shape in shapes if shape.name == job)
    perhaps = sum(together and done.fault.is_a.known_late for done in own)
    return (surely if len(own) == 1 else 0), surely + perhaps


def _costs(shapes: Iterable[Shape], done: Done) -> bool:
    """The job's Redis server is nobody's program: docs/runtimes.md."""
    return done.fault.is_a.charged and done.fault.target != owner(shapes, done.fault.target).server
