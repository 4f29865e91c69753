"""C3: a container that the kubelet restarts on purpose has not failed. The statuses are those that
a kubelet 1.37.2 has written for real pods (kubelet_1_37.json).
"""

import copy
import json
from datetime import datetime
from typing import Any

import pytest
from dijob import names
from dijob.api.status import Status
from dijob.core.membership import failures
from dijob.core.membership.failures import FailureAccount
from dijob.core.membership.policy import Policy
from dijob.core.observed import parse, shape
from dijob.core.observed.views import Pod
from samples.builders import NOW, Body, container, gang, job, job_body, observed, pod_body, world_of
from samples.statuses import KUBELET_1_37, terminated
from simulator.simulated import simulated

RECORDED: Body = json.loads(KUBELET_1_37.read_text())
RULED = {"name": "rac", "image": "x", "restartPolicy": "Always"}
CRASH = terminated(1, finishedAt="2026-11-26T10:00:00Z")


def seen(shown: Body, first_shape: str) -> Pod:
    """Return rank 1 with the containers and the status that a kubelet has reported."""
    body = pod_body(1, job({"initContainers": [RULED]}))
    main = next(c for c in body["spec"]["containers"] if c["name"] == names.MAIN_CONTAINER)
    mounts = {names.MAIN_CONTAINER: main["volumeMounts"]}
    body["spec"]["containers"] = [
        {**c, "volumeMounts": mounts.get(c["name"], [])} for c in shown["containers"]
    ]
    body["status"] = {**shown["status"], "podIP": "10.0.0.1"}
    body["metadata"]["annotations"] |= {
        names.ANNOTATION_IPS: "10.0.0.0,10.0.0.1,10.0.0.2",
        names.ANNOTATION_LIST_NUMBER: "1",
        names.ANNOTATION_SHAPE: first_shape,
    }
    return parse.parse_pod(body)


def counted(before: FailureAccount, pod: Pod, now: datetime = NOW) -> FailureAccount:
    """Return the accounting after one more reconciliation, even by an operator that has just
    started.
    """
    world = world_of(gang(), observed(pod), before.into(Status(list_number=1)), now)
    after = failures.with_failures(before, world, Policy(gang()), now)
    return failures.read_ledger(after.into(Status(list_number=1)), gang())


def first_shape_of(life: list[Body]) -> str:
    return seen(life[0], "").made.shape


def crashed(shown: Body) -> Body:
    """Return the same pod a moment later: its program has crashed."""
    later = copy.deepcopy(shown)
    main = next(
        c for c in later["status"]["containerStatuses"] if c["name"] == names.MAIN_CONTAINER
    )
    main["state"] = CRASH
    return later


@pytest.mark.parametrize("life", RECORDED["restarts"].values(), ids=RECORDED["restarts"])
def test_a_restart_on_purpose_does_not_count_and_a_crash_after_it_does(life: list[Body]) -> None:
    """C3, status by status: a resize, a changed image, a restart rule."""
    first, ledger = first_shape_of(life), failures.read_ledger(Status(), gang())
    for shown in life:
        ledger = counted(ledger, seen(shown, first))
    assert seen(life[-1], first).containers.failures > 0
    assert ledger.restarts == 0
    assert counted(ledger, seen(crashed(life[-1]), first)).restarts == 1


@pytest.mark.parametrize("life", RECORDED["restarts"].values(), ids=RECORDED["restarts"])
def test_an_operator_that_starts_later_does_not_count_the_restart_either(
    life: list[Body],
) -> None:
    """C3: it was not running. Of two resizes that it has not observed it can excuse one."""
    ledger = counted(failures.read_ledger(Status(), gang()), seen(life[-1], first_shape_of(life)))
    ends = seen(life[-1], "").containers.failures
    assert ledger.restarts == ends - 1


def test_without_a_known_first_shape_every_end_counts() -> None:
    """For example in a pod of an older operator."""
    life = RECORDED["restarts"]["another image"]
    assert counted(failures.read_ledger(Status(), gang()), seen(life[-1], "")).restarts == 1


MEMORY = {"resources": {"limits": {"memory": "64Mi", "cpu": "1"}, "requests": {"memory": "64Mi"}}}
RESTARTS = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
STAYS = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "NotRequired"}]}
WAITS_FOR_ROOM = {"conditions": [{"type": "PodResizePending", "status": "True"}]}


def of(status: Body | None = None, **fields: Any) -> str:
    return shape.shape_of({"containers": [container(**fields)]}, frozenset(), status or {})


def with_memory(amount: str) -> Body:
    limits = {"memory": amount, "cpu": "1"}
    return {"resources": {"limits": limits, "requests": {"memory": amount}}}


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ({}, {"image": "img:2"}, True),
        ({**MEMORY, **RESTARTS}, {**with_memory("72Mi"), **RESTARTS}, True),
        ({**MEMORY, **STAYS}, {**with_memory("72Mi"), **STAYS}, False),
        (MEMORY, with_memory("72Mi"), False),
        (
            {**MEMORY, **RESTARTS},
            {"resources": {**MEMORY["resources"], "limits": {"memory": "64Mi", "cpu": "2"}}}
            | RESTARTS,
            False,
        ),
    ],
    ids=["another image", "a resize that restarts", "one that does not", "the default", "of CPU"],
)
def test_only_what_restarts_a_container_changes_its_shape(
    before: Body, after: Body, differs: bool
) -> None:
    """C3: a crash after a resize without a restart counts."""
    assert (of(**before) != of(**after)) is differs


def test_a_pending_resize_excuses_no_crash() -> None:
    """C3: the kubelet has not restarted anything for it."""
    assert of(WAITS_FOR_ROOM) == ""


@pytest.mark.virtual_time
async def test_a_job_survives_repeated_resizes() -> None:
    """C3: four resizes, even with an operator that starts in between."""
    pod: Body = {"containers": [container(**MEMORY, **RESTARTS)]}
    async with simulated(job_body(pod, backoffLimit=0)) as world:
        await world.running()
        rank = world.cluster.pod("job-1")
        for number in range(4):
            rank.resize(f"{72 + number}Mi")
            await world.settle(5)
            if number == 1:
                await world.restart()
        status = world.cluster.job().status
        assert (status.phase, status.restarts, rank.main.restarts) == ("Running", 0, 4)
        rank.end(rank.main, 1)
        await world.until(lambda: world.phase == "Failed")
