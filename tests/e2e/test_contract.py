"""The environment of every process of a job, and the names of its peers, read in the pods."""

import pytest
from environ import Shape, expected, processes, program
from jobs import job, peers
from space import Space

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "shape",
    [Shape(2, 3, "mesh"), Shape(3, 1, "star"), Shape(1, 1, "alone")],
    ids=["mesh-2x3", "star-3x1", "alone"],
)
def test_the_program_has_every_variable_of_the_contract(space: Space, shape: Shape) -> None:
    spec = {"replicas": shape.pods, "parallelWorkers": shape.workers, "topology": shape.topology}
    space.apply(peers("world", "--forever", **spec))
    space.until_true("world", "Running")
    body, ips = space.job("world"), space.ips("world")
    assert len(set(ips)) == shape.pods
    for rank in range(shape.pods):
        peer = program(space, f"world-{rank}", "python3 /usr/local/bin/light-peer")
        assert peer.di == expected(body, ips, rank, shape), f"{peer.pid} {peer.command}"


def test_user_variables_take_precedence_and_can_use_the_pods_address(space: Space) -> None:
    env = [
        {"name": "DI_LABELS", "value": "learner"},
        {"name": "LISTEN", "value": "tcp://$(DI_POD_IP):7000/$(DI_RANK)"},
    ]
    space.apply(job("own", {"command": ["sleep", "3600"], "env": env}))
    space.until_true("own", "Running")
    ips = space.ips("own")
    for rank in range(2):
        di = processes(space, f"own-{rank}")[0].env
        assert di["DI_LABELS"] == "learner"
        assert di["LISTEN"] == f"tcp://{ips[rank]}:7000/{rank}"


def test_hostnames_and_names_in_the_cluster_are_those_of_the_ranks(space: Space) -> None:
    space.apply(peers("named", "--forever", service="Always"))
    space.until_true("named", "Running")
    ips = space.ips("named")
    for rank in range(2):
        assert space.execute(f"named-{rank}", "hostname").strip() == f"named-{rank}"

    def unresolved() -> str:
        found = [_address(space, "named-0", f"named-{rank}.named") for rank in range(2)]
        return "" if found == ips else f"{found} instead of {ips}"

    space.until("the peers' names resolve", unresolved, 120)


def _address(space: Space, pod: str, name: str) -> str:
    answer = space.execute(pod, "sh", "-c", f"getent ahostsv4 {name} || :").split()
    return answer[0] if answer else ""
