"""Two operators, as the chart installs them: the standby takes over, however the leader ends."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from os import kill

import pytest
from archives import archive
from cluster import Cluster
from dijob.controller.leader.lease import RENEW_SECONDS
from jobs import peers
from leading import Leader
from node_loss import operators, without_power
from release import install
from space import HOME, Api, Space, measured

pytestmark = pytest.mark.e2e

# docs/operations.md: after a crash, and after a regular shutdown.
# After SIGTERM, the standby needs less than a second on a quiet machine, and once needed 1.1 s next
# to two other test files. If it missed the release of the Lease, it would wait for the Lease's end.
SILENT_SECONDS, TOLD_SECONDS = 8.0, 3.0
TWO = ("replicas=2",)


@pytest.fixture(scope="module")
def leader(cluster: Cluster, api: Api) -> Iterator[Leader]:
    operator = archive("operator")
    install(cluster, operator, *TWO)
    try:
        yield Leader(api)
    finally:
        install(cluster, operator)


# Each of these functions ends a leader, and returns when it did (monotonic). A start of kubectl
# takes long on a busy machine, and does not count.
def killed(space: Space, pod: str) -> float:
    """Kill the operator's process (kill -9)."""
    pids = space.cluster.pids(HOME, pod, "operator")
    began = time.monotonic()
    for pid in pids:
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    return began


def removed(space: Space, pod: str) -> float:
    """Kill the pod's sandbox, and force-delete the pod."""
    space.cluster.kill_sandbox(HOME, pod)
    began = time.monotonic()
    space.api.core.delete_namespaced_pod(pod, HOME, grace_period_seconds=0)
    return began


def told(space: Space, pod: str) -> float:
    began = time.monotonic()
    space.api.core.delete_namespaced_pod(pod, HOME)
    return began


WAYS: dict[str, tuple[Callable[[Space, str], float], float]] = {
    "kill -9": (killed, SILENT_SECONDS),
    "the pod is gone": (removed, SILENT_SECONDS),
    "SIGTERM": (told, TOLD_SECONDS),
}


def until_another_acts(space: Space, leader: Leader, before: tuple[str, object]) -> float:
    def problem() -> str:
        holder, since = leader.now()
        return "" if holder and since != before[1] else f"{holder or 'nobody'} since {since}"

    return space.until("another operator acts", problem, 2 * SILENT_SECONDS)


@pytest.mark.parametrize("way", WAYS)
def test_the_standby_takes_over(space: Space, leader: Leader, way: str) -> None:
    end, bound = WAYS[way]
    space.apply(peers("world", "--forever", replicas=2, backoffLimit=0))
    space.until_true("world", "PeersReady")
    before = leader.now()
    began = end(space, before[0])
    space.api.core.delete_namespaced_pod("world-1", space.name)
    until_another_acts(space, leader, before)
    took = time.monotonic() - began
    measured(f"seconds until an operator acts again, {way} (bound {bound:g})", f"{took:.1f}")
    healed(space)
    assert took <= bound
    space.cluster.run_kubectl(
        "-n", HOME, "rollout", "status", "deployment/dijob", "--timeout=180s", timeout=190
    )


def healed(space: Space) -> None:
    """Check that rank 1 is replaced after a loss, and that no failure is counted."""

    def problem() -> str:
        status = space.status("world")
        ready = space.condition("world", "PeersReady").get("status")
        right = (status.get("listNumber"), ready) == (2, "True")
        return "" if right else f"list {status.get('listNumber')}, PeersReady {ready}"

    space.until("the job is whole again", problem, 120)
    assert space.status("world").get("restarts", 0) == 0


def test_an_upgrade_has_no_gap_without_a_leader(space: Space, leader: Leader) -> None:
    """Measure the longest time without a renewal of the Lease, which is due each second."""
    space.apply(peers("world", "--forever", replicas=2, backoffLimit=0))
    space.until_true("world", "PeersReady")
    before = operators(space)
    gaps, last, since = [0.0], leader.renewed(), time.monotonic()
    with ThreadPoolExecutor() as pool:
        new = ("podAnnotations.upgraded=yes",)
        upgrade = pool.submit(install, space.cluster, archive("operator"), *TWO, *new)
        while not upgrade.done():
            if (renewed := leader.renewed()) != last:
                last, since = renewed, time.monotonic()
            gaps.append(time.monotonic() - since)
            time.sleep(0.02)
        upgrade.result()
    after = operators(space)
    assert not set(before) & set(after)
    assert leader.now()[0] in after
    bound = RENEW_SECONDS + TOLD_SECONDS
    measured(f"longest time without a renewal (bound {bound:g})", f"{max(gaps):.2f}")
    assert max(gaps) <= bound
    assert space.status("world").get("restarts", 0) == 0


def test_the_standby_takes_over_when_the_leaders_node_falls_silent(
    space: Space, leader: Leader
) -> None:
    before = leader.now()
    with without_power(space, operators(space)[before[0]]):
        took = until_another_acts(space, leader, before)
        measured(
            f"seconds until an operator acts again after its node's silence"
            f" (bound {SILENT_SECONDS:g})",
            f"{took:.1f}",
        )
        assert took <= SILENT_SECONDS
