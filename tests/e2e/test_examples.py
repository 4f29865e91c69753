"""Every file in examples/, applied as it is: what its ranks did together is read from their own
logs.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from cluster import ClusterError
from environ import Process, Shape, expected, processes
from jobs import EXAMPLES, REAL_SECONDS
from space import Space, measured

pytestmark = pytest.mark.e2e

SCALE = "/apis/diengine.opendilab.org/v2alpha1/namespaces/{}/dijobs/{}/scale"


def test_every_example_has_a_test() -> None:
    """Here, in test_dqn_losses.py (cartpole-dqn), test_tasks_dqn.py (cartpole-tasks), and where a
    runtime or a queue is the subject.
    """
    known = {"dijob.yaml", "star.yaml", "cartpole-dqn.yaml", "cartpole-tasks.yaml"}
    known |= {
        "events.yaml",
        "torch.yaml",
        "slurm.yaml",
        "oneflow.yaml",
        "runner.yaml",
        "redis.yaml",
        "torchrpc.yaml",
    }
    assert {path.name for path in EXAMPLES.iterdir()} == known


@pytest.fixture(scope="module")
def first(open_space: Callable[[str], AbstractContextManager[Space]]) -> Iterator[Space]:
    """A namespace in which examples/dijob.yaml has been applied."""
    with open_space("first") as space:
        space.kubectl("apply", "-f", str(EXAMPLES / "dijob.yaml"))
        yield space


def programs(space: Space, pod: str) -> list[Process]:
    """The Python processes that are ditask, none before the container runs."""
    try:
        found = processes(space, pod)
    except ClusterError:
        return []
    return [process for process in found if re.match(r"\S*python\S* .*/ditask ", process.command)]


def test_every_process_of_the_first_job_has_every_variable(first: Space) -> None:
    # The status, which the variables are compared with, may come up to 3 s later than the
    # processes.
    first.until_true("test", "AddressesReady", REAL_SECONDS)
    for rank in range(3):

        def absent(pod: str = f"test-{rank}") -> str:
            return "" if programs(first, pod) else f"no ditask in {pod} yet"

        first.until(f"ditask runs as rank {rank}", absent, REAL_SECONDS)
        body, ips = first.job("test"), first.ips("test")
        assert len(set(ips)) == 3
        for process in programs(first, f"test-{rank}"):
            assert process.di == expected(body, ips, rank, Shape(3, 2, "mesh")), process.command


def test_the_first_job_scales_within_its_bounds(first: Space) -> None:
    raw = SCALE.format(first.name, "test")
    first.until("the scale's status", lambda: "" if scale(first, raw) else "no status yet", 60)
    first.kubectl("scale", "dijob/test", "--replicas=3")
    with pytest.raises(ClusterError, match="replicas"):
        first.kubectl("scale", "dijob/test", "--replicas=4")
    shown = json.loads(first.kubectl("get", "--raw", raw))
    assert shown["spec"]["replicas"] == 3
    assert first.kubectl(
        "get", "pods", "-l", shown["status"]["selector"], "-o", "name"
    ).split() == [f"pod/test-{rank}" for rank in range(3)]


def scale(space: Space, raw: str) -> bool:
    return bool(json.loads(space.kubectl("get", "--raw", raw))["status"].get("replicas") == 3)


def test_node_0_of_the_first_job_is_greeted_by_nodes_1_to_5(first: Space) -> None:
    first.kubectl(
        "wait",
        "--for=condition=Succeeded",
        f"--timeout={REAL_SECONDS}s",
        "dijob/test",
        timeout=REAL_SECONDS + 10,
    )
    greeted = set(re.findall(r"Get msg: Hi from node (\d+)", first.logs("test-0")))
    assert greeted == set("12345")
    assert first.status("test").get("restarts", 0) == 0


def test_the_star_adds_up_what_its_workers_computed_apart(space: Space) -> None:
    space.kubectl("apply", "-f", str(EXAMPLES / "star.yaml"))
    waited = space.until_true("star", "Succeeded", REAL_SECONDS)
    measured("seconds until star.yaml has Succeeded", f"{waited:.0f}")
    assert "pi is 3.14159, from nodes [1, 2, 3]; results they heard of each other: 0" in space.logs(
        "star-0"
    )
