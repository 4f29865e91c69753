"""How a rank is shown: one of a few kinds, each with a colour and a shape, and words. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from dijob.api.status import Status
from dijob.client import RankPod
from dijob.core.members import expand
from dijob.names import Phase
from dijob.pod import RENEWAL_CODE


class Kind(StrEnum):
    """What the page draws."""

    READY = "ready"
    DONE = "done"
    WAITING = "waiting"
    RENEWING = "renewing"
    FAILED = "failed"
    ABSENT = "absent"


@dataclass(frozen=True)
class State:
    """A kind, and what is said of it."""

    kind: Kind
    words: str


_OVER = (Phase.SUCCEEDED, Phase.FAILED)


def of_pod(pod: RankPod, fell: bool) -> State:
    """The state of a rank that has a pod. `fell`: its program was seen to end badly a moment ago,
    and may run again since.
    """
    word, code = pod.state, pod.last_exit
    bad = code not in (None, 0, RENEWAL_CODE)
    if bad and (word == "Running" or (fell and word == "Ready")):
        return State(Kind.FAILED, f"Started again after exit code {code}")
    match word:
        case "Ready":
            return State(Kind.READY, "Ready")
        case _ if word.endswith(" (0)"):
            return State(Kind.DONE, "Completed")
        case "Renewing":
            return State(Kind.RENEWING, "Starts again with the next list")
        case "Terminating":
            return State(Kind.RENEWING, "Its pod is ending")
        case "Running" if code == RENEWAL_CODE:
            return State(Kind.RENEWING, "Started again, not Ready yet")
        case "Running":
            return State(Kind.WAITING, "Runs, not Ready yet")
        case "Gate":
            return State(Kind.WAITING, "Waits for its peers' addresses")
        case "Pending":
            return State(Kind.WAITING, "Starting" if pod.node else "Has no node yet")
    return State(Kind.FAILED, word)


def without_pod(rank: int, status: Status) -> State:
    """The state of a rank that has no pod."""
    if rank in expand(status.succeeded_ranks):
        return State(Kind.DONE, "Completed")
    if status.phase in _OVER:
        return State(Kind.ABSENT, "Its pod is gone")
    if status.phase == Phase.SUSPENDED:
        return State(Kind.ABSENT, "Suspended")
    known = status.address_list.size if status.address_list else 0
    # Whoever is in a list that was given out had a pod.
    if rank < known:
        return State(Kind.FAILED, "Lost: it has no pod now")
    return State(Kind.ABSENT, "Has no pod yet")
