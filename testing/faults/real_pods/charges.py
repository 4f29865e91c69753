"""The number of counted failures that a job must have after the faults of a wave."""

from collections.abc import Iterable
from dataclasses import dataclass

from faults.real_pods.kinds import Level
from faults.real_pods.plan import Fault
from faults.real_pods.shapes import Shape, owner


@dataclass(frozen=True)
class Done:
    """A fault that was injected: when it began and ended (seconds of the run), and what it hit, or
    why it hit nothing (`missed`). `alone` is as in scene.Done.
    """

    wave: int
    fault: Fault
    began: float
    ended: float
    hit: str = ""
    missed: str = ""
    alone: bool = False


def touches(shapes: Iterable[Shape], done: Done, job: str) -> bool:
    """Return whether a fault may have hit a job.

    A fault of a pod hits only the job of this pod. A fault of a node may hit every job, because the
    pods of each job are spread across the nodes. A fault of the operator hits no job.
    """
    level = done.fault.is_a.level
    if level is Level.POD:
        return owner(shapes, done.fault.target).name == job
    return level is Level.NODE


def charges(shapes: Iterable[Shape], wave: Iterable[Done], job: str) -> tuple[int, int]:
    """Return the minimum and maximum number of failures that one wave may add to a job's count.

    Only failures of programs are counted (docs/tasks.md). If such a failure was the only fault that
    touched the job in the wave, it counts exactly once. If other faults touched the job as well,
    the failure does not always count. It is not counted if the program has to restart anyway, or if
    its Redis server is down. If a torch program fails because of a lost peer before the loss is
    known, its failure is counted (docs/runtimes.md).
    """
    shapes = tuple(shapes)
    own = [done for done in wave if not done.missed and touches(shapes, done, job)]
    surely = sum(_costs(shapes, done) for done in own)
    together = next(shape.together for shape in shapes if shape.name == job)
    perhaps = sum(together and done.fault.is_a.known_late for done in own)
    # With other faults in the wave, the rank may have been restarting anyway.
    return (surely if len(own) == 1 else 0), surely + perhaps


def _costs(shapes: Iterable[Shape], done: Done) -> bool:
    """Return whether a fault is a counted failure. The Redis server of a job is not a rank, so its
    failures do not count (docs/runtimes.md).
    """
    return done.fault.is_a.charged and done.fault.target != owner(shapes, done.fault.target).server
