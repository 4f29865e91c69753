"""The recovery time after each fault: the time until everything that it hit was healthy again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faults.real_pods.charges import Done, touches
from faults.real_pods.kinds import Level
from faults.real_pods.shapes import Shape


@dataclass(frozen=True)
class Look:
    """One observation of everything: when it began (seconds of the run), which jobs were healthy or
    had failed as expected, and when the Lease was last renewed.
    """

    at: float
    whole: frozenset[str]
    renewed: str = ""


@dataclass(frozen=True)
class Healed:
    """A fault, and the seconds until everything that the fault hit had recovered.

    `seconds` is None if there was no such moment.
    """

    done: Done
    seconds: float | None
    jobs: tuple[str, ...] = ()


def healed(shapes: Sequence[Shape], done: Done, looks: Iterable[Look]) -> Healed:
    """Return the recovery time after a fault. Jobs have recovered when, for the first time
    after the fault, an observation shows all of them healthy. Operators have recovered when the
    Lease is renewed.
    """
    # While a node or a network is down, a job cannot recover.
    since = done.ended if done.fault.is_a.from_end else done.began
    if done.fault.is_a.level is Level.OPERATOR:
        return Healed(done, _acts(done, looks))
    jobs = tuple(shape.name for shape in shapes if touches(shapes, done, shape.name))
    after = (look.at for look in looks if look.at >= since and look.whole.issuperset(jobs))
    first = next(after, None)
    return Healed(done, None if first is None else round(first - since, 1), jobs)


def _acts(done: Done, looks: Iterable[Look]) -> float | None:
    """Return the seconds until the Lease was renewed. The first observation after the fault does
    not count: it may show a renewal that was already on its way.
    """
    after = [look for look in looks if look.at >= done.began]
    later = (look.at for look in after[1:] if look.renewed != after[0].renewed)
    first = next(later, None)
    return None if first is None else round(first - done.began, 1)
