"""Reasons for the condition about training progress."""

from typing import Final

from dijob.reasons.catalogue import EventType, Reason, good, problem, waiting

_READ: Final = (
    "look up the functions that the message names, and read the logs of the ranks that it names."
    " `kubectl dijob doctor NAME --stacks` prints all threads of all processes. If the"
    " program was only slow, raise `stallSeconds`"
)


class ProgressStalled(Reason):
    """Whether the training of a job with `stallSeconds` is making no progress although all its
    ranks are Ready. Present only if the condition has ever been True.
    """

    NoProgress = problem(
        "the training has made no progress for `stallSeconds`. The message says when and at"
        " which iteration progress stopped, and names the innermost functions of each rank's main"
        " thread",
        _READ,
        status=True,
    )
    StalledAgain = problem(
        "the training has stalled again, although the operator has already restarted ranks because"
        " of a stall (`stallPolicy: Restart`). The operator does not restart ranks again",
        _READ,
        status=True,
    )
    Restarted = waiting(
        "the operator is restarting ranks because of the stall; AddressesReady names them",
    )
    NotChecked = waiting(
        "a rank is not Ready, or the job is suspended or has succeeded, so the time without"
        " progress is not counted"
    )
    Progressing = good(
        "the training is making progress again", status=False, event=EventType.NORMAL
    )
