"""The catalog of reasons: every reason that a condition can have, what it means, what to do about
it, and which event reports it.

docs/conditions.md is generated from it.
"""

from typing import Final

from dijob.reasons.catalogue import EventType, Reason, ReasonKind
from dijob.reasons.health import Reconciling, Stalled
from dijob.reasons.life import Failed, Finished, Paused, Succeeded, Suspended, Terminating
from dijob.reasons.progress import AddressesReady, PeersReady, PodsCreated, Running
from dijob.reasons.shared import (
    BrokerReady,
    ChangesRefused,
    DrainsLimited,
    GangScheduled,
    Isolated,
    ServiceReady,
)
from dijob.reasons.spec import Invalid, LauncherBypassed, SpecWarning
from dijob.reasons.training import ProgressStalled

# The conditions are in the order in which `kubectl describe` and docs/conditions.md show them.
CATALOGUE: Final[tuple[type[Reason], ...]] = (
    PodsCreated,
    AddressesReady,
    Running,
    PeersReady,
    Succeeded,
    Failed,
    Finished,
    Invalid,
    Suspended,
    LauncherBypassed,
    SpecWarning,
    ServiceReady,
    Isolated,
    GangScheduled,
    DrainsLimited,
    BrokerReady,
    Paused,
    ProgressStalled,
    Terminating,
    ChangesRefused,
    Reconciling,
    Stalled,
)

__all__ = [
    "CATALOGUE",
    "AddressesReady",
    "BrokerReady",
    "ChangesRefused",
    "DrainsLimited",
    "EventType",
    "Failed",
    "Finished",
    "GangScheduled",
    "Invalid",
    "Isolated",
    "LauncherBypassed",
    "Paused",
    "PeersReady",
    "PodsCreated",
    "ProgressStalled",
    "Reason",
    "ReasonKind",
    "Reconciling",
    "Running",
    "ServiceReady",
    "SpecWarning",
    "Stalled",
    "Succeeded",
    "Suspended",
    "Terminating",
]


def find_reason(condition: str, name: str) -> Reason | None:
    """Return the catalog's entry for the type and the reason of a condition in a job's status.

    Returns None if the catalog has no such entry. That happens in a cluster whose operator is newer
    or older than this program, so callers must not treat it as an error.
    """
    return _BY_TYPE[condition].__members__.get(name) if condition in _BY_TYPE else None


_BY_TYPE: Final = {each.__name__: each for each in CATALOGUE}
