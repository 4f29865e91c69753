"""addressing: Hostname: the peer list has names, and the loss of a rank restarts no other rank."""

import json

import pytest
from environ import first
from identity import Identity, identities, running, until_size
from jobs import DITASK, REAL_SECONDS, config_map, job, mounted
from sockets import mesh, until_edges
from space import Space, measured
from test_mesh import IDLE

pytestmark = pytest.mark.e2e

PORTS = (50515,)


def until_only(
    space: Space, name: str, victim: str, before: dict[str, Identity], seconds: float = 180
) -> float:
    """Poll until one rank is new, all ranks are Ready, and the others are unchanged."""

    def problem() -> str:
        now, ready = identities(space, name), space.condition(name, "PeersReady")
        changed = {pod for pod in before if now.get(pod) != before[pod]}
        # The new pod runs, so its loss is stored, and the condition is not from before the loss.
        right = changed == {victim} and victim in now and ready.get("status") == "True"
        return "" if right else f"changed: {changed}; PeersReady: {ready.get('message')}"

    return space.until(f"only {victim} is new", problem, seconds)


def test_a_lost_rank_comes_back_with_its_name_and_no_other_rank_restarts(space: Space) -> None:
    before = running(space, replicas=4, addressing="Hostname")
    names = [f"world-{rank}.world" for rank in range(4)]
    told = first(space, "world-1").env
    assert (told["DI_NODES"], "DI_NODE_IPS" in told) == (",".join(names), False)
    assert (
        json.loads(space.execute("world-1", "cat", "/run/dijob/topology.json"))["nodeNames"]
        == names
    )
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    space.kubectl("delete", "pod", "world-0", "--wait=false")
    waited = until_only(space, "world", "world-0", before)
    again = until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    measured("seconds from the deletion of rank 0 of 4, told names, to all Ready", f"{waited:.1f}")
    measured("seconds from then to the complete mesh", f"{again:.1f}")
    assert space.status("world").get("restarts", 0) == 0


def test_a_job_with_hostnames_scales_up_and_down(space: Space) -> None:
    before = running(space, minReplicas=2, maxReplicas=4, replicas=3, addressing="Hostname")
    for replicas in (4, 3):
        space.kubectl("scale", "dijob", "world", f"--replicas={replicas}")
        until_size(space, replicas, before)
        until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)


@pytest.mark.long
def test_real_di_engine_finds_a_lost_listener_again_by_its_name(space: Space) -> None:
    mount, volume = mounted("code", "/code")
    main = {
        "image": DITASK,
        "command": ["ditask", "--package", "/code", "--main", "idle.main"],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
        **mount,
    }
    space.apply(
        config_map("code", idle_py=IDLE),
        job("real", main, pod=volume, replicas=3, addressing="Hostname"),
    )
    space.until_true("real", "PeersReady", REAL_SECONDS)
    until_edges(space, "real", mesh(space.ips("real"), 1), PORTS, REAL_SECONDS)
    before = identities(space, "real")
    space.kubectl("delete", "pod", "real-0", "--wait=false")
    waited = until_only(space, "real", "real-0", before, REAL_SECONDS)
    again = until_edges(space, "real", mesh(space.ips("real"), 1), PORTS, REAL_SECONDS)
    measured(
        "seconds from the deletion of rank 0 of 3 (DI-engine, told names) to all Ready",
        f"{waited:.1f}",
    )
    measured("seconds from then to the complete mesh", f"{again:.1f}")
