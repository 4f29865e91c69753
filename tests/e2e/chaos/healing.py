"""How long it took until what a fault had hit was whole again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.charges import Done, touches
from chaos.kinds import Level
from chaos.shapes import Shape


@dataclass(frozen=True)
class Look:
    """One look at everything: when it began (seconds of the run), which jobs were whole or had
    ended as they must, and when the Lease was renewed last.
    """

    at: float
    whole: frozenset[str]
    renewed: str = ""


@dataclass(frozen=True)
class Healed:
    """A fault, and the seconds until what it hit was whole: None where it never was."""

    done: Done
    seconds: float | None
    jobs: tuple[str, ...] = ()


def healed(shapes: Sequence[Shape], done: Done, looks: Iterable[Look]) -> Healed:
    """Jobs are whole again at the first look, begun after the fault, that shows all of them so.
    Operators act again when the Lease is renewed by one.
    """
    since = done.ended if done.fault.is_a.from_end else done.began
    if done.fault.is_a.level is Level.OPERATOR:
        return Healed(done, _acts(done, looks))
    jobs = tuple(shape.name for shape in shapes if touches(shapes, done, shape.name))
    after = (look.at for look in looks if look.at >= since and look.whole.issuperset(jobs))
    first = next(after, None)
    return Healed(done, None if first is None else round(first - since, 1), jobs)


def _acts(done: Done, looks: Iterable[Look]) -> float | None:
    """A renewal that was under way may still be seen in the first look after the fault."""
    after = [look for look in looks if look.at >= done.began]
    later = (look.at for look in after[1:] if look.renewed != after[0].renewed)
    first = next(later, None)
    return None if first is None else round(first - done.began, 1)
