"""Which Workload of a job decides about it, and which have no use any more."""

from typing import Any

import pytest
from dijob.core.observed.queue_views import Assignment, Workload
from dijob.core.observed.slices import arrange_workloads

RESERVED = {"type": "QuotaReserved", "status": "True"}
ADMITTED = (RESERVED, {"type": "Admitted", "status": "True"})
EVICTED = (*ADMITTED, {"type": "Evicted", "status": "True"})
SUCCEEDED = (*ADMITTED, {"type": "Finished", "status": "True", "reason": "Succeeded"})
REPLACED = (*ADMITTED, {"type": "Finished", "status": "True", "reason": "WorkloadSliceReplaced"})


def workload(name: str, *conditions: dict[str, str], **fields: Any) -> Workload:
    assigned = {"main": Assignment(1)} if RESERVED in conditions else {}
    return Workload(name, f"uid-{name}", "job", conditions=conditions, assigned=assigned, **fields)


def larger(*conditions: dict[str, str], **fields: Any) -> Workload:
    return workload("b", *conditions, replaces="a", **fields)


@pytest.mark.parametrize(
    ("found", "current", "growth"),
    [
        ([], "", ""),
        ([workload("a")], "a", ""),
        ([workload("a", *ADMITTED), larger()], "a", "b"),
        ([workload("a", *ADMITTED), larger(RESERVED)], "a", "b"),
        ([workload("a", *REPLACED), larger(RESERVED)], "a", "b"),
        ([workload("a", *REPLACED), larger(*ADMITTED)], "b", ""),
        ([workload("a", *ADMITTED), larger(*ADMITTED)], "b", ""),
        ([workload("a", *EVICTED), larger()], "a", "b"),
        ([workload("a", *EVICTED), larger(*ADMITTED)], "b", ""),
        ([workload("a", *REPLACED), larger(*EVICTED)], "b", ""),
        ([workload("a", *REPLACED), larger()], "b", ""),
        ([workload("a", *REPLACED)], "", ""),
        ([workload("a", *SUCCEEDED), larger()], "a", "b"),
        ([larger(*ADMITTED)], "b", ""),
        ([workload("a", *ADMITTED), workload("x", replaces="gone")], "a", ""),
        ([workload("a", deleting=True), workload("x", replaces="gone")], "x", ""),
        (
            [workload("a", *REPLACED), larger(*REPLACED), workload("c", *ADMITTED, replaces="b")],
            "c",
            "",
        ),
        ([workload("a", *ADMITTED, replaces="b"), larger(*ADMITTED)], "", ""),
    ],
    ids=[
        "no Workload",
        "one that waits",
        "one that runs, and a larger one that waits",
        "the larger one waits for checks, and Kueue was killed before it finished the other",
        "the larger one waits for checks",
        "the larger one is admitted",
        "the larger one is admitted, and Kueue was killed before it finished the other",
        "the smaller one is evicted",
        "the smaller one is evicted, but the larger one is admitted",
        "the larger one is evicted",
        "the larger one has lost its quota",
        "the larger one was deleted after it had got the quota",
        "the job has ended",
        "the smaller one was deleted",
        "another one that replaces nothing",
        "one that is being deleted",
        "two growths",
        "a circle",
    ],
)
def test_the_workloads_are_arranged(found: list[Workload], current: str, growth: str) -> None:
    for order in (found, found[::-1]):
        first, second, others = arrange_workloads(order, "a")
        assert [one.name if one else "" for one in (first, second)] == [current, growth]
        known = {one.name for one in found}
        assert {one.name for one in others} == known - {current, growth}
