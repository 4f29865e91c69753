"""Connections between ranks: the kernels' tables compared with DI-engine's own code."""

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType

import pytest
from environ import Shape, expected, processes
from jobs import DITASK, REAL_SECONDS, config_map, job, mounted, peers
from sockets import Edges, mesh, until_edges
from space import Space, measured

pytestmark = pytest.mark.e2e

HERE = Path(__file__).parent
PEER = HERE.parents[1] / "images/light/peer.py"
Case = tuple[str, int, int]
# Topology, pods, workers per pod -> number of connections (star 3 x 2: as DI-engine computes it).
CASES: dict[Case, int | None] = {
    ("mesh", 3, 2): 15,
    ("star", 4, 1): 3,
    ("star", 3, 2): None,
    ("alone", 2, 1): 0,
}
# Node id -> links that it dials, with pods named h0, h1 ...
Table = dict[str, list[str]]

IDLE = "import time\n\n\ndef main():\n    time.sleep(3600)\n"


@pytest.fixture(scope="module")
def tables(
    open_space: Callable[[str], AbstractContextManager[Space]],
) -> Iterator[dict[Case, Table]]:
    """Return what DI-engine dials in each case, computed by its code in its image."""
    with open_space("parser") as space:
        space.apply(job("asked", {"image": DITASK, "command": ["sleep", "3600"]}, replicas=1))
        space.until_true("asked", "Running")
        program = (HERE / "dials.py").read_text()
        ask = ("exec", "-i", "asked-0", "--", "python3", "-", json.dumps(list(CASES)))
        answer = space.kubectl(*ask, stdin=program, timeout=REAL_SECONDS)
        yield dict(zip(CASES, json.loads(answer.splitlines()[-1]), strict=True))


@pytest.fixture(scope="module")
def peer() -> Iterator[ModuleType]:
    """Yield light-peer's program as a module."""
    spec = importlib.util.spec_from_file_location("light_peer_e2e", PEER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def dialled(table: Table, ips: list[str], workers: int) -> Edges:
    """Return the connections of a table of links between pods with these addresses."""
    found: Edges = Counter()
    for node, links in table.items():
        for link in links:
            host, _, port = link.removeprefix("tcp://h").partition(":")
            found[ips[int(node) // workers], ips[int(host)], int(port)] += 1
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: "{}-{}x{}".format(*case))
def test_light_peer_dials_what_di_engine_dials(
    tables: dict[Case, Table], peer: ModuleType, case: Case
) -> None:
    topology, pods, workers = case
    world = peer.World(0, tuple(f"h{rank}" for rank in range(pods)), workers, topology)
    ours = {
        str(node): ["tcp://{}:{}".format(*world.endpoint(target)) for target in world.dials(node)]
        for node in range(pods * workers)
    }
    assert ours == tables[case]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "{}-{}x{}".format(*case))
def test_exactly_the_expected_connections_exist(
    space: Space, tables: dict[Case, Table], case: Case
) -> None:
    topology, pods, workers = case
    space.apply(
        peers("world", "--forever", replicas=pods, parallelWorkers=workers, topology=topology)
    )
    space.until_true("world", "Running")
    wanted = dialled(tables[case], space.ips("world"), workers)
    assert CASES[case] in (None, wanted.total())
    until_edges(space, "world", wanted, _ports(workers))
    measured("connections, {} of {} x {}".format(*case), wanted.total())


@pytest.fixture(scope="module")
def real(open_space: Callable[[str], AbstractContextManager[Space]]) -> Iterator[Space]:
    """Yield a job of three pods with two processes of real DI-engine each."""
    mount, volume = mounted("code", "/code")
    command = ["ditask", "--package", "/code", "--main", "idle.main", "--parallel-workers", "2"]
    env = [{"name": "OMP_NUM_THREADS", "value": "1"}]
    main = {"image": DITASK, "command": command, "env": env, **mount}
    with open_space("real") as space:
        space.apply(config_map("code", idle_py=IDLE), job("real", main, pod=volume, replicas=3))
        yield space


def test_real_di_engine_makes_exactly_the_mesh_of_its_parser(
    real: Space, tables: dict[Case, Table]
) -> None:
    real.until_true("real", "Running", REAL_SECONDS)
    ips = real.ips("real")
    wanted = dialled(tables["mesh", 3, 2], ips, 2)
    assert wanted == mesh(ips, 2)
    until_edges(real, "real", wanted, _ports(2), REAL_SECONDS)
    measured("connections of DI-engine, mesh of 3 x 2", wanted.total())


def test_each_of_its_processes_has_every_variable(real: Space) -> None:
    """The processes are ditask itself and its workers."""
    body, ips = real.job("real"), real.ips("real")
    for rank in range(3):
        found = [each for each in processes(real, f"real-{rank}") if "python" in each.command]
        assert len(found) > 2, found
        for process in found:
            assert process.di == expected(body, ips, rank, Shape(3, 2, "mesh")), process.command


def _ports(workers: int) -> list[int]:
    return [50515 + worker for worker in range(workers)]
