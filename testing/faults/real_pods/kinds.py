"""The kinds of faults: what each hits, how long it lasts, and which effects are allowed."""

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

    `lasts` gives the minimum and maximum number of seconds until the fault is undone; 0 if there is
    nothing to undo. `charged` means that it is a failure of the rank's program, which counts
    towards backoffLimit (docs/tasks.md). `given_up` means that it lasts until Kubernetes gives up
    on the node. With `two_at_once`, the old program of a rank may run at the same time as the new
    one. After a forced deletion, nothing waits for the old program to end. The same is true after
    Kubernetes has given up on a node. With `from_end`, the recovery time is measured from the end
    of the fault, because jobs keep running during the fault, or cannot recover until it ends.
    `known_late` means that programs end before Kubernetes notices the fault. Programs that depend
    on them may then end as well.
    """

    name: str
    level: Level
    lasts: tuple[float, float] = (0.0, 0.0)
    charged: bool = False
    given_up: bool = False
    two_at_once: bool = False
    from_end: bool = False
    known_late: bool = False


# Kubernetes gives up on a silent node after 50 s (--node-monitor-grace-period of the
# kube-controller-manager), and evicts the jobs' pods 2 s later.
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
    """Return the kinds of this level, in the order of the table."""
    return tuple(kind for kind in KINDS.values() if kind.level is level)
