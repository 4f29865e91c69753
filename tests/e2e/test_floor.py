"""The benchmark's gated floor is no straw man: on a real node its pod waits for the list too."""

import json

import pytest
from floor import IPS, NUMBER, Kind
from space import Space

pytestmark = pytest.mark.e2e


def test_its_gate_opens_for_its_own_address(space: Space) -> None:
    space.apply(Kind.GATED.pod("floor", 0, 1))
    shown = ("get", "pod", "floor-0", "-o")

    def address() -> str:
        return space.kubectl(*shown, "jsonpath={.status.podIP}")

    space.until("it has an address", lambda: "" if address() else "none yet", 60)
    ip = address()
    assert space.kubectl(*shown, "jsonpath={.status.phase}") == "Pending"
    for number, ips in (("1", "10.9.9.9"), ("2", ip)):
        patch = {"metadata": {"annotations": {IPS: ips, NUMBER: number}}}
        space.kubectl("patch", "pod", "floor-0", "--type=merge", "-p", json.dumps(patch))
    space.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "pod/floor-0", timeout=130)
    env = space.execute("floor-0", "env").splitlines()
    assert {f"DI_NODES={ip}", "DI_LIST_NUMBER=2", "DI_RANK=0", "DI_WORLD_SIZE=1"} <= set(env)
