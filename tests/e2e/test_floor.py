"""The benchmark's floors are realistic: on a real node, their pods wait for the list too."""

import json

import pytest
from floor import IPS, NUMBER, Kind
from space import Space

pytestmark = pytest.mark.e2e

PROGRAM = "sleep 3600"


def address(space: Space) -> str:
    """Wait for the address of the floor's only pod."""
    shown = ("get", "pod", "floor-0", "-o", "jsonpath={.status.podIP}")
    space.until("it has an address", lambda: "" if space.kubectl(*shown) else "none yet", 180)
    return space.kubectl(*shown)


def tell(space: Space, number: str, ips: str) -> None:
    """Annotate the pod with a list."""
    patch = {"metadata": {"annotations": {IPS: ips, NUMBER: number}}}
    space.kubectl("patch", "pod", "floor-0", "--type=merge", "-p", json.dumps(patch))


def test_the_gate_opens_for_its_own_address(space: Space) -> None:
    space.apply(Kind.GATED.pod("floor", 0, 1))
    ip = address(space)
    assert space.kubectl("get", "pod", "floor-0", "-o", "jsonpath={.status.phase}") == "Pending"
    tell(space, "1", "10.9.9.9")
    tell(space, "2", ip)
    space.kubectl("wait", "--for=condition=Ready", "--timeout=300s", "pod/floor-0", timeout=310)
    env = space.execute("floor-0", "env").splitlines()
    assert {f"DI_NODES={ip}", "DI_LIST_NUMBER=2", "DI_RANK=0", "DI_WORLD_SIZE=1"} <= set(env)


def test_a_pod_that_polls_starts_its_program_with_the_list(space: Space) -> None:
    space.apply(Kind.WAITING.pod("floor", 0, 1))
    space.kubectl("wait", "--for=condition=Ready", "--timeout=300s", "pod/floor-0", timeout=310)
    ip = address(space)

    def program() -> str:
        return space.execute("floor-0", "cat", "/proc/1/cmdline").replace("\0", " ").strip()

    assert program() != PROGRAM
    tell(space, "1", ip)
    space.until(
        "its program", lambda: "" if (seen := program()) == PROGRAM else f"it runs {seen}", 300
    )
    assert space.execute("floor-0", "cat", "/list/node-ips", "/list/list-number") == f"{ip}1"
