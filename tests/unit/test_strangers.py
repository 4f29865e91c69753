"""C19: whether pods that belong to no DIJob wait for a node."""

from typing import Any

import pytest
from dijob.core.observed.views import Pod
from dijob.shell.children import Children
from dijob.shell.clock import SYSTEM
from dijob.shell.strangers import Strangers
from unit.builders import Body, view
from unit.fake_api import FakeApi

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
    return await Strangers(api.api(), children, SYSTEM).look(PATHS), api


@pytest.mark.parametrize(
    ("found", "waiting"),
    [
        pytest.param([[], []], False, id="none"),
        pytest.param([[], [stranger()]], True, id="one"),
        pytest.param([[stranger("SchedulingGated")], []], False, id="one that is gated"),
        pytest.param([[{**stranger(), "status": {"phase": "Pending"}}], []], False, id="a new one"),
    ],
)
async def test_who_else_waits_for_a_node(found: list[list[Body]], waiting: bool) -> None:
    assert (await look(HOMELESS, *found))[0] == waiting


async def test_nothing_is_listed_while_no_job_waits_for_room() -> None:
    waiting, api = await look(view(0))
    assert not waiting
    assert api.calls == []


async def test_the_list_is_small() -> None:
    """The API server leaves out our own pods and those with a node, and answers from its cache."""
    _, api = await look(HOMELESS, [stranger()])
    ((_, path, query),) = api.calls
    assert path == PATHS[0]
    assert query == {
        "labelSelector": "app.kubernetes.io/managed-by!=dijob-operator",
        "fieldSelector": "spec.nodeName=,status.phase=Pending",
        "resourceVersion": "0",
    }
