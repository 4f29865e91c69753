"""Jobs that are scaled while they run: the other ranks keep running, and get the new list."""

import json
from typing import Any

import pytest
from environ import first
from identity import identities, kill_program, running, until_size
from jobs import peers, share_of_a_node
from sockets import mesh, star, until_edges
from space import Space, measured

pytestmark = pytest.mark.e2e

PORTS = (50515,)
# A kubelet that misses new annotations of a pod syncs again after about a minute.
TOLD_SECONDS = 100


def topology(space: Space, pod: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(space.execute(pod, "cat", "/run/dijob/topology.json"))
    return found


def until_told(space: Space, size: int, workers: int = 1) -> float:
    """Poll until topology.json in every pod of "world" is up to date."""

    def problem() -> str:
        ips, number = space.ips("world"), space.status("world").get("listNumber")
        if len(ips) != size or not all(ips):
            return f"addresses: {ips}"
        ids = [rank * workers for rank in range(size)]
        wanted = {
            "listNumber": number,
            "worldSize": size * workers,
            "numNodes": size,
            "nodeIps": ips,
            "firstNodeIds": ids,
        }
        for rank in range(size):
            told = topology(space, f"world-{rank}")
            if wrong := {key: told.get(key) for key in wanted if told.get(key) != wanted[key]}:
                return f"rank {rank} has {wrong}, not {wanted}"
        return ""

    return space.until(f"each of {size} pods has the true topology.json", problem, TOLD_SECONDS)


def scale(space: Space, replicas: int) -> None:
    space.kubectl("scale", "dijob", "world", f"--replicas={replicas}")


@pytest.mark.parametrize("shape", ["mesh", pytest.param("star", marks=pytest.mark.long)])
def test_scaling_from_three_to_five_and_back_restarts_no_other_rank(
    space: Space, shape: str
) -> None:
    before = running(
        space, minReplicas=2, maxReplicas=6, replicas=3, topology=shape, gatherSeconds=60
    )
    edges = mesh if shape == "mesh" else lambda ips, workers: star(ips)
    until_told(space, 3)
    scale(space, 5)
    grown = until_size(space, 5, before)
    until_edges(space, "world", edges(space.ips("world"), 1), PORTS)
    told = until_told(space, 5)
    measured(f"seconds from kubectl scale 3 to 5 to all Ready ({shape})", f"{grown:.1f}")
    measured("seconds from then until topology.json says so in each pod", f"{told:.1f}")
    assert all(f"peer 0: greeting from {node}" in space.logs("world-0") for node in (3, 4))
    told_new = first(space, "world-4").env
    assert (told_new["DI_WORLD_SIZE"], told_new["DI_NUM_NODES"]) == ("5", "5")
    scale(space, 3)
    shrunk = until_size(space, 3, before)
    until_edges(space, "world", edges(space.ips("world"), 1), PORTS)
    until_told(space, 3)
    measured(
        f"seconds from kubectl scale 5 to 3 until the others are gone ({shape})", f"{shrunk:.1f}"
    )
    status = space.status("world")
    assert (status.get("restarts", 0), status.get("renewals", 0), status["listNumber"]) == (0, 0, 3)


def test_scaling_up_and_down_within_a_second_ends_correctly(space: Space) -> None:
    before = running(space, minReplicas=2, maxReplicas=6, replicas=3)
    for replicas in (5, 3, 5):
        space.api.custom.patch_namespaced_custom_object_scale(
            "diengine.opendilab.org",
            "v2alpha1",
            space.name,
            "dijobs",
            "world",
            {"spec": {"replicas": replicas}},
        )
    until_size(space, 5, before)
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    until_told(space, 5)
    assert space.status("world").get("renewals", 0) == 0


def test_a_rank_that_restarts_after_growth_knows_all_peers(space: Space) -> None:
    before = running(space, minReplicas=1, maxReplicas=4, replicas=2, backoffLimit=3)
    scale(space, 3)
    until_size(space, 3, before)
    kill_program(space, "world-0")

    def problem() -> str:
        now = identities(space, "world").get("world-0")
        return "" if now and now[1] == 1 else str(now)

    space.until("rank 0 runs again", problem, 120)
    told = first(space, "world-0").env
    assert (told["DI_NUM_NODES"], told["DI_NODES"]) == ("3", ",".join(space.ips("world")))
    # A process that is started by hand gets the current list, even in a pod that started earlier.
    asked = ("/run/dijob/bin/launch", "printenv", "DI_NUM_NODES")
    assert space.execute("world-1", *asked).split() == ["3"]
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)


def test_the_fourth_rank_joins_when_there_is_room(
    space: Space,
) -> None:
    """Two ranks fill a node, and another pod occupies the place of the fourth rank."""
    request = share_of_a_node(space, 2)
    hog = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hog"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "hog", "image": "dijob/light:dev", "command": ["sleep", "3600"], **request}
            ],
        },
    }
    space.apply(hog)
    space.kubectl("wait", "--for=condition=Ready", "pod/hog", "--timeout=120s", timeout=130)
    world = peers("world", "--forever", minReplicas=2, maxReplicas=4, gatherSeconds=8)
    del world["spec"]["replicas"]
    world["spec"]["template"]["spec"]["containers"][0] |= request
    space.apply(world)
    begun = space.until_true("world", "Running")
    measured(
        "seconds until a job of 2 to 4 runs with room for 3 (gatherSeconds: 8)", f"{begun:.1f}"
    )

    # If rank 2 starts later than gatherSeconds after the others, it joins them.
    def not_three() -> str:
        message = space.condition("world", "AddressesReady").get("message", "")
        right = all(word in message for word in ("joining later: rank 3: ", "nsufficient cpu"))
        three = sorted(identities(space, "world")) == ["world-0", "world-1", "world-2"]
        return "" if right and three else f"{message}; {sorted(identities(space, 'world'))}"

    space.until("three ranks run without the fourth", not_three, 120)
    before = identities(space, "world")
    space.kubectl("delete", "pod", "hog", "--wait=false")
    joined = until_size(space, 4, before)
    measured(
        "seconds from the moment when there is room until the fourth rank is Ready", f"{joined:.1f}"
    )
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    assert space.status("world").get("renewals", 0) == 0
