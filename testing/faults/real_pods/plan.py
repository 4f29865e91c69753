"""Draws faults from a seed: waves of several faults that overlap, with a quiet point after each.

The plan depends only on the seed, so that a run can be repeated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from faults.real_pods.kinds import KINDS, Kind, Level, of_level

# The number of faults of each level in a wave. All begin within WITHIN_SECONDS. The loss of a node
# comes last, because faults can no longer hit pods on a lost node.
PER_WAVE = {Level.POD: 3, Level.NODE: 2, Level.OPERATOR: 1}
WITHIN_SECONDS = 12.0
# The target of every operator fault. Which operator is the leader is known only when the fault
# begins.
OPERATORS = "operators"


@dataclass(frozen=True)
class Fault:
    """A fault. It begins `at` seconds after the wave does, and is undone `seconds` later."""

    at: float
    kind: str
    target: str
    seconds: float

    @property
    def is_a(self) -> Kind:
        return KINDS[self.kind]


@dataclass(frozen=True)
class Field:
    """The possible targets and kinds of faults, and the number of faults per level in a wave."""

    pods: tuple[str, ...]
    nodes: tuple[str, ...]
    kinds: tuple[Kind, ...] = tuple(KINDS.values())
    per_wave: Mapping[Level, int] = field(default_factory=lambda: PER_WAVE)


class Deck:
    """Kinds in random order, such that each occurs once before any is repeated."""

    def __init__(self, kinds: Sequence[Kind], random: Random) -> None:
        self._kinds, self._random, self._left = list(kinds), random, list[Kind]()

    def deal(self, count: int, given_up: int) -> list[Kind]:
        """Return the next kinds. At most `given_up` of them make Kubernetes give up on a node."""
        dealt: list[Kind] = []
        while len(dealt) < count and self._kinds:
            if not self._left:
                self._left = self._random.sample(self._kinds, len(self._kinds))
            # A kind that does not fit into this wave stays in the deck for a later one.
            free = given_up - sum(kind.given_up for kind in dealt)
            at = next((at for at, k in enumerate(self._left) if free or not k.given_up), None)
            if at is None:
                break
            dealt.append(self._left.pop(at))
        return dealt


def waves(seed: int, scope: Field) -> Iterator[tuple[Fault, ...]]:
    """Yield the waves of this seed endlessly.

    In a wave, each node has at most one fault, and Kubernetes gives up on at most one of the two
    nodes. Otherwise no job could recover during the wave.
    """
    # One generator draws everything in a fixed order, so that a seed always gives the same faults.
    random = Random(seed)
    mine = {level: [k for k in of_level(level) if k in scope.kinds] for level in Level}
    decks = {level: Deck(kinds, random) for level, kinds in mine.items()}
    while True:
        # Shuffled, so that each node gets each kind of fault.
        nodes = random.sample(scope.nodes, len(scope.nodes))
        faults = []
        for level, count in scope.per_wave.items():
            most = min(count, len(nodes)) if level is Level.NODE else count
            for number, kind in enumerate(decks[level].deal(most, given_up=1)):
                target = OPERATORS
                if level is Level.POD:
                    target = random.choice(scope.pods)
                elif level is Level.NODE:
                    target = nodes[number]
                # The loss of a node comes last, because faults can no longer hit pods on a lost
                # node.
                at = random.uniform(WITHIN_SECONDS if kind.given_up else 0, WITHIN_SECONDS)
                seconds = random.uniform(*kind.lasts)
                faults.append(Fault(round(at, 1), kind.name, target, round(seconds, 1)))
        yield tuple(sorted(faults, key=lambda fault: (fault.at, fault.kind)))
