"""Determines how a rank is shown: its kind, which sets the color and the shape, and the text next
to it. No I/O.
"""

from dataclasses import dataclass
from enum import StrEnum

from dijob.api.status import FirstFailure, Status
from dijob.client import RankPod
from dijob.core.members import parse_ranks
from dijob.names import Phase
from dijob.pod import RENEWAL_CODE


class StateKind(StrEnum):
    """The kinds of ranks, each of which the page draws differently."""

    READY = "ready"
    DONE = "done"
    WAITING = "waiting"
    RENEWING = "renewing"
    FAILED = "failed"
    STOPPED = "stopped"
    ABSENT = "absent"


@dataclass(frozen=True)
class State:
    """A kind and the text next to it."""

    kind: StateKind
    words: str


_OVER = (Phase.SUCCEEDED, Phase.FAILED)


def of_pod(pod: RankPod, fell: bool, over: str = "") -> State:
    """Return the state of a rank with a pod.

    `fell` says whether the rank's program failed a moment ago. If so, the program may already be
    running again. `over` is the time when the job ended; "" if it has not ended.
    """
    if over and pod.end:
        return _of_end(pod, over)
    word, code = pod.state, pod.last_exit
    bad = code not in (None, 0, RENEWAL_CODE)
    if bad and (word == "Running" or (fell and word == "Ready")):
        return State(StateKind.FAILED, f"Restarted after exit code {code}")
    match word:
        case "Ready":
            return State(StateKind.READY, "Ready")
        case "Renewing":
            return State(StateKind.RENEWING, "Restarting with the next peer list")
        case "Terminating":
            return State(StateKind.RENEWING, "Pod is terminating")
        case "Running" if code == RENEWAL_CODE:
            return State(StateKind.RENEWING, "Restarted, not Ready yet")
        case "Running":
            return State(StateKind.WAITING, "Running, not Ready yet")
        case "Gate":
            return State(StateKind.WAITING, "Waiting for the peer list")
        case "Pending":
            return State(StateKind.WAITING, "Starting" if pod.node else "Not scheduled yet")
    if pod.end:
        return _of_end(pod)
    # Everything else is a problem that the kubelet reports, such as ImagePullBackOff.
    return State(StateKind.FAILED, f"{word} after exit code {code}" if bad else word)


def _of_end(pod: RankPod, over: str = "") -> State:
    """Return the state of a rank whose program has ended; `over` is the time when the job ended."""
    code, reason = int(pod.end.get("exitCode") or 0), str(pod.end.get("reason") or "")
    if code == 0:
        return State(StateKind.DONE, "Completed")
    # When a job has ended, the operator stops the programs that are still running.
    later = over and not pod.kept and str(pod.end.get("finishedAt") or "") > over
    if later or code == RENEWAL_CODE:
        return State(StateKind.STOPPED, "Stopped when the job ended")
    return State(
        StateKind.FAILED, f"Exit code {code} ({reason})" if reason else f"Exit code {code}"
    )


def without_pod(rank: int, status: Status) -> State:
    """Return the state of a rank without a pod."""
    if rank in parse_ranks(status.succeeded_ranks):
        return State(StateKind.DONE, "Completed")
    first = status.first_failure
    if status.phase == Phase.FAILED and first and first.rank == rank:
        return State(StateKind.FAILED, f"{_describe_exit(first)}; its pod was deleted")
    if status.phase in _OVER:
        return State(StateKind.STOPPED, "Stopped when the job ended; its pod was deleted")
    if status.phase == Phase.SUSPENDED:
        return State(StateKind.ABSENT, "Suspended")
    known = status.address_list.size if status.address_list else 0
    # Every rank of a published peer list has had a pod.
    if rank < known:
        return State(StateKind.FAILED, "Lost: its pod is gone")
    return State(StateKind.ABSENT, "No pod yet")


def _describe_exit(first: FirstFailure) -> str:
    reason = f" ({first.reason})" if first.reason else ""
    return f"Failed{reason}" if first.exit_code is None else f"Exit code {first.exit_code}{reason}"
