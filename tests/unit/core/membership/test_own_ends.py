"""Whether a rank has succeeded or its pod is lost, depending on whether it ended by itself or was
ended.
"""

import pytest
from dijob.api.status import Status
from dijob.core.membership.losses import loss_of
from samples.builders import NOW, Body, gang, listed, observed, world_of
from samples.lives import LOW, TOO_MUCH, disruption, failed, seen, status
from samples.statuses import main_status, terminated

# Whether the pod is a success, and whether it is lost, after its kubelet has reported how it ended.
ENDS: dict[str, tuple[Body, bool, bool]] = {
    "by itself": (status(main_status(state=terminated(0)), phase="Succeeded"), True, False),
    "by itself, just as the scheduler chose it": (
        status(
            main_status(state=terminated(0)),
            phase="Succeeded",
            **disruption("PreemptionByScheduler"),
        ),
        True,
        False,
    ),
    "by itself, just before its node shut down": (
        status(
            main_status(state=terminated(0)),
            phase="Succeeded",
            reason="Terminated",
            **disruption("TerminationByKubelet"),
        ),
        True,
        False,
    ),
    "with 0 on TERM, its node shut down": (
        failed(0, "Terminated", "Pod was terminated", **disruption("TerminationByKubelet")),
        False,
        True,
    ),
    "with 0 on TERM, evicted": (
        failed(0, "Evicted", LOW, **disruption("TerminationByKubelet")),
        False,
        True,
    ),
    "with 0 on TERM, evicted for its own disk": (
        failed(0, "Evicted", TOO_MUCH["pod"]),
        False,
        True,
    ),
    "with 0 on TERM, its template's deadline": (
        failed(0, "DeadlineExceeded", "too long"),
        False,
        True,
    ),
    "with 0, and a sidecar failed the pod": (failed(0), True, False),
    "with 0, while its eviction is under way": (
        status(main_status(state=terminated(0)), **disruption("EvictionByEvictionAPI")),
        False,
        False,
    ),
}


@pytest.mark.parametrize(("shown", "succeeded", "lost"), ENDS.values(), ids=ENDS)
def test_a_rank_that_ended_by_itself_has_succeeded_and_one_that_was_ended_is_lost(
    shown: Body, succeeded: bool, lost: bool
) -> None:
    pod = seen("OnFailure", shown)
    done = Status(list_number=1, succeeded_ranks="1" if succeeded else "")
    world = world_of(gang(), observed(listed(0), pod, listed(2)), done, NOW)
    assert (pod.containers.succeeded, pod.failed) == (succeeded, lost)
    assert (loss_of(world) is not None) is lost
