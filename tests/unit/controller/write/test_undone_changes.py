"""Changes on a pod that something reverts: they are written again with a back-off, and reported. A
single edit is corrected at once.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from dijob import names
from samples.builders import Body, job_body
from simulator.apiserver import Change
from simulator.objects import Target
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

POD = Target("pods", "ns", "job-1")
# In a minute: at once, and after 1, 2, 4, 8, 16 and 32 s.
MOST_WRITES = 9


def relabel(meta: Body) -> None:
    meta["labels"][names.LABEL_RANK] = "9"


def unlist(meta: Body) -> None:
    meta["annotations"].pop(names.ANNOTATION_IPS, None)


EDITS: dict[str, tuple[Callable[[Body], None], str]] = {
    "label": (relabel, "labels"),
    "annotation": (unlist, "annotations"),
}


def edit(world: World, change: Callable[[Body], None]) -> None:
    body = copy.deepcopy(world.cluster.server.get(POD))
    change(body["metadata"])
    world.cluster.server.replace(POD, body)


def webhook(world: World, change: Callable[[Body], None]) -> None:
    """Change each pod when it is written."""
    replace = world.cluster.server.replace

    def changing(target: Target, body: Body) -> Any:
        if target == POD:
            body = copy.deepcopy(body)
            change(body["metadata"])
        return replace(target, body)

    world.cluster.server.replace = changing  # type: ignore[method-assign]


def controller(world: World, change: Callable[[Body], None]) -> None:
    """Change the pod whenever it is as the operator wrote it."""

    def told(seen: Change) -> None:
        after = copy.deepcopy(seen.body)
        if seen.target == POD and seen.type == "MODIFIED":
            change(after["metadata"])
            if after != seen.body:
                world.cluster.loop.call_later(0.05, edit, world, change)

    world.cluster.server.told.append(told)


def says(world: World) -> str:
    """Return the message of ChangesRefused; "" while it is not True."""
    stored = world.cluster.job().status.conditions
    return next(
        (c.message for c in stored if c.type == "ChangesRefused" and c.status == "True"), ""
    )


def writes(world: World) -> int:
    return len(world.writes("PATCH", "pods"))


@pytest.mark.parametrize("somebody", [webhook, controller])
@pytest.mark.parametrize(("change", "what"), EDITS.values(), ids=EDITS)
async def test_a_reverted_change_is_written_with_back_off(
    somebody: Callable[..., None], change: Callable[[Body], None], what: str
) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        somebody(world, change)
        before = writes(world)
        edit(world, change)
        await world.runs(50)
        assert "pod job-1 cannot be changed" in says(world)
        reverts = f"a webhook or controller reverts the pod's {what} under {names.GROUP}/"
        assert reverts in says(world)
        await world.runs(10)
        assert writes(world) - before <= MOST_WRITES
        before = writes(world)
        await world.runs(600)
        assert writes(world) - before <= 11
        assert world.phase == "Running"


@pytest.mark.parametrize(("change", "what"), EDITS.values(), ids=EDITS)
async def test_an_occasional_edit_is_corrected_at_once(
    change: Callable[[Body], None], what: str
) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        right = world.cluster.server.get(POD)["metadata"]
        for _ in range(5):
            edit(world, change)
            await world.runs(1)
            there = world.cluster.server.get(POD)["metadata"]
            assert (there["labels"], there["annotations"]) == (
                right["labels"],
                right["annotations"],
            )
            assert not says(world)
            await world.runs(700)


async def test_the_condition_is_cleared_once_nothing_reverts_the_change() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        replace = world.cluster.server.replace
        webhook(world, relabel)
        edit(world, relabel)
        await world.runs(20)
        assert says(world)
        world.cluster.server.replace = replace  # type: ignore[method-assign]
        await world.runs(70)
        assert not says(world)
        assert world.cluster.server.get(POD)["metadata"]["labels"][names.LABEL_RANK] == "1"


async def test_a_new_list_does_not_wait() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        webhook(world, relabel)
        edit(world, relabel)
        await world.runs(100)  # The next retry is in half a minute.
        world.cluster.delete(world.cluster.pod("job-0"))
        await world.until(lambda: world.cluster.job().status.list_number == 2, 10)

        def has_list() -> bool:
            annotations = world.cluster.server.get(POD)["metadata"]["annotations"]
            return bool(annotations[names.ANNOTATION_LIST_NUMBER] == "2")

        await world.until(has_list, 5)
