"""Worlds of the state machine that a test advances round by round."""

from typing import Any

from dijob.names import CleanPodPolicy

from simulator.containers import Process
from simulator.driving import Faults
from simulator.kubelet import SimPod
from simulator.state_machine import Chaos

ENOUGH_ROUNDS = 9
WORLDS: list[Chaos] = []


def world(
    size: int = 3, shape: str = "mesh", scope: str = "Pod", limit: int = 3, **more: Any
) -> Chaos:
    """Return a world with a job whose ranks all run."""
    chaos = Chaos()
    WORLDS.append(chaos)
    chaos.begin(
        size,
        CleanPodPolicy.RUNNING,
        more.get("never", False),
        False,
        limit,
        (shape, scope),
        least=1,
    )
    rounds(chaos, ENOUGH_ROUNDS)
    chaos.check_running()
    return chaos


def rounds(chaos: Chaos, count: int = 1) -> None:
    """Run the operator and the kubelets, and check the invariants after each round."""
    for _ in range(count):
        chaos.it_goes_on_until_a_fault(0, Faults())
        chaos.check_everything()


def now(chaos: Chaos) -> dict[int, tuple[str, Process | None]]:
    return {pod.rank: (pod.uid, pod.process) for pod in chaos.pods()}


def changed(before: dict[int, tuple[str, Process | None]], chaos: Chaos) -> set[int]:
    """Return the ranks whose pod or process was replaced or is gone."""
    after = now(chaos)
    return {rank for rank in before if after.get(rank) != before[rank]}


def pod(chaos: Chaos, rank: int) -> SimPod:
    return next(pod for pod in chaos.pods() if pod.rank == rank)
