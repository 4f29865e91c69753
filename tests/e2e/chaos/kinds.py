"""The kinds of faults: what each one hits, how long it lasts, and what it may cost."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """What a fault hits."""

    POD = "pod"
    NODE = "node"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Kind:
    """One kind of fault.

    `lasts`: the fewest and the most seconds until it is undone, 0 where there is nothing to undo.
    `charged`: it is a failure of the rank's program, which counts against backoffLimit
    (docs/tasks.md). `given_up`: it lasts until Kubernetes gives the node up. `two_at_once`: the old
    program of a rank may run on beside the new one, since nobody waits for its end (a forced
    deletion, a node that is given up). `from_end`: the seconds to heal are counted from its end,
    since the jobs run on meanwhile or nothing can mend them. `known_late`: programs end of it
    before Kubernetes knows, and those that cannot do without them too.
    """

    name: str
    level: Level
    lasts: tuple[float, float] = (0.0, 0.0)
    charged: bool = False
    given_up: bool = False
    two_at_once: bool = False
    from_end: bool = False
    known_late: bool = False


# Kubernetes gives a silent node up after 50 s (kube-controller-manager's
# --node-monitor-grace-period), the jobs' pods 2 s later.
SHORT, GIVEN_UP = (6.0, 18.0), (72.0, 80.0)
POD, NODE, OPERATOR = Level.POD, Level.NODE, Level.OPERATOR
KINDS = {
    kind.name: kind
    for kind in (
        Kind("pod deleted", POD),
        Kind("pod deleted without grace", POD, two_at_once=True),
        Kind("program killed", POD, charged=True),
        Kind("launcher killed", POD, charged=True),
        Kind("sandbox killed", POD, known_late=True),
        Kind("shim killed", POD, known_late=True),
        Kind("network of a pod cut", POD, SHORT, from_end=True),
        Kind("kubelet stopped", NODE, SHORT, from_end=True),
        Kind("kubelet killed", NODE, SHORT, from_end=True),
        Kind("containerd stopped", NODE, SHORT, from_end=True),
        Kind("containerd killed", NODE, SHORT, from_end=True),
        Kind("disk of a node full", NODE, (15.0, 30.0), from_end=True),
        Kind("node lost for a moment", NODE, SHORT, from_end=True, known_late=True),
        Kind("node lost", NODE, GIVEN_UP, given_up=True, two_at_once=True, known_late=True),
        Kind("kubelet silent", NODE, GIVEN_UP, given_up=True, two_at_once=True, from_end=True),
        Kind("operator killed", OPERATOR),
        Kind("leader killed", OPERATOR),
        Kind("leader's pod killed and removed", OPERATOR),
        Kind("leader deleted", OPERATOR),
        Kind("leader stopped", OPERATOR, SHORT),
    )
}


def of_level(level: Level) -> tuple[Kind, ...]:
    """The kinds that hit this, in the order of the table."""
    return tuple(kind for kind in KINDS.values() if kind.level is level)
