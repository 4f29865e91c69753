"""C19: whether pods that belong to no DIJob are unscheduled."""

from typing import Any

import pytest
from dijob.controller.cache.children import Children
from dijob.controller.observe.foreign_pods import ForeignPods
from dijob.core.observed.views import Pod
from dijob.process.clock import SYSTEM
from fakes.fake_api import FakeApi
from samples.builders import Body, view

PATHS = ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"]
HOMELESS = view(0, node="", ip="", complaint="Unschedulable: no GPU")


def stranger(reason: str = "Unschedulable", **spec: Any) -> Body:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "no"}
    return {
        "metadata": {"name": "web-1", "namespace": "b", "uid": "u", "resourceVersion": "1"},
        "spec": {"containers": [], **spec},
        "status": {"phase": "Pending", "conditions": [scheduled]},
    }


async def look(ours: Pod, *found: list[Body]) -> tuple[bool, FakeApi]:
    children, api = Children.of(()), FakeApi(lists=[{"items": items} for items in found])
    children.pods.put(ours)
    return await ForeignPods(api.api(), children, SYSTEM).look(PATHS), api


@pytest.mark.parametrize(
    ("found", "waiting"),
    [
        pytest.param([[], []], False, id="none"),
        pytest.param([[], [stranger()]], True, id="one"),
        pytest.param([[stranger("SchedulingGated")], []], False, id="one with a scheduling gate"),
        pytest.param(
            [[{**stranger(), "status": {"phase": "Pending"}}], []],
            False,
            id="one that the scheduler has not seen yet",
        ),
    ],
)
async def test_whether_other_pods_are_unscheduled(found: list[list[Body]], waiting: bool) -> None:
    assert (await look(HOMELESS, *found))[0] == waiting


async def test_no_list_is_made_while_no_job_waits_for_capacity() -> None:
    waiting, api = await look(view(0))
    assert not waiting
    assert api.calls == []


async def test_the_list_is_filtered_and_cached() -> None:
    """The list excludes the operator's own pods and scheduled pods, and comes from the apiserver's
    cache.
    """
    _, api = await look(HOMELESS, [stranger()])
    ((_, path, query),) = api.calls
    assert path == PATHS[0]
    assert query == {
        "labelSelector": "app.kubernetes.io/managed-by!=dijob-operator",
        "fieldSelector": "spec.nodeName=,status.phase=Pending",
        "resourceVersion": "0",
    }
