"""light-peer dials the peers that DI-engine dials, completes a mesh of real processes, and ends on
SIGTERM.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PEER = Path(__file__).resolve().parents[3] / "images" / "light" / "peer.py"

# Node id -> node ids it dials, in DI-engine's order: what DI-engine 0.5.3's own code returned for
# DI_NODES of n hosts and --parallel-workers w (k8s_parser, then Parallel._nng_args_parser for each
# DI_RANK). The rules are in ding/entry/cli_parsers/k8s_parser.py:66-94 (other pods) and
# ding/framework/parallel.py:156-164 (the same pod).
DIALS: dict[tuple[str, int, int], dict[int, list[int]]] = {
    ("mesh", 3, 2): {0: [], 1: [0], 2: [0, 1], 3: [2, 0, 1], 4: [0, 1, 2, 3], 5: [4, 0, 1, 2, 3]},
    ("mesh", 4, 1): {0: [], 1: [0], 2: [0, 1], 3: [0, 1, 2]},
    ("mesh", 1, 3): {0: [], 1: [0], 2: [0, 1]},
    ("star", 3, 2): {0: [], 1: [0], 2: [0, 1], 3: [2, 0, 1], 4: [0, 1], 5: [4, 0, 1]},
    ("star", 4, 1): {0: [], 1: [0], 2: [0], 3: [0]},
    ("star", 1, 3): {0: [], 1: [0], 2: [0]},
    ("alone", 3, 2): {0: [], 1: [], 2: [], 3: [], 4: [], 5: []},
    ("alone", 1, 3): {0: [], 1: [], 2: []},
}


def load() -> ModuleType:
    """Import the program as a module. This happens when the test file is imported, because
    Hypothesis collects constants from all modules.
    """
    spec = importlib.util.spec_from_file_location("light_peer", PEER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["light_peer"] = module
    spec.loader.exec_module(module)
    return module


light_peer = load()


@pytest.mark.parametrize(("topology", "pods", "workers"), DIALS, ids=lambda value: str(value))
def test_dials_what_di_engine_dials(topology: str, pods: int, workers: int) -> None:
    world = light_peer.World(0, tuple(f"h{i}" for i in range(pods)), workers, topology)
    table = {node: world.dials(node) for node in range(pods * workers)}
    assert table == DIALS[topology, pods, workers]


def test_the_connections_of_a_pod_have_an_end_in_it() -> None:
    world = light_peer.World(1, ("a", "b", "c"), 1, "mesh")
    assert world.edges() == {(1, 0), (2, 1)}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"DI_RANK": None}, "DI_RANK"),
        ({"DI_NODES": None}, "DI_NODES"),
        ({"DI_RANK": "2"}, "DI_RANK is 2"),
        ({"DI_PARALLEL_WORKERS": "0"}, "DI_PARALLEL_WORKERS is 0"),
        ({"DI_TOPOLOGY": "ring"}, "DI_TOPOLOGY is 'ring'"),
    ],
    ids=str,
)
def test_an_invalid_environment_is_named(change: dict[str, str | None], named: str) -> None:
    env = {"DI_RANK": "0", "DI_NODES": "10.0.0.1,10.0.0.2", **change}
    with pytest.raises(ValueError, match=re.escape(named)):
        light_peer.World.read({key: value for key, value in env.items() if value is not None})


def start(rank: int, addresses: list[str], *flags: str, workers: int = 2) -> subprocess.Popen[str]:
    world = {
        "DI_RANK": str(rank),
        "DI_NODES": ",".join(addresses),
        "DI_PARALLEL_WORKERS": str(workers),
    }
    command = [sys.executable, str(PEER), *flags]
    return subprocess.Popen(
        command,
        env={**os.environ, **world},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def addresses() -> list[str]:
    """Return three unused loopback addresses, which differ between processes."""
    second, third = divmod(os.getpid() % 65025, 255)
    found = [f"127.{second + 1}.{third}.{i}" for i in (1, 2, 3)]
    for address in found:
        with socket.socket() as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # also with connections in TIME_WAIT
            probe.bind((address, 50515))
    return found


def test_three_pods_of_two_workers_complete_and_exit(addresses: list[str]) -> None:
    pods = [start(rank, addresses, "--exit-code", str(rank + 3)) for rank in (2, 0, 1)]
    try:
        outputs = {pod.args[-1]: pod.communicate(timeout=30)[0] for pod in pods}  # type: ignore[index]
    finally:
        for pod in pods:
            pod.kill()
            pod.wait()
    assert [pod.returncode for pod in pods] == [5, 3, 4], outputs
    text = "".join(outputs.values())
    connected = {
        (int(a), int(b)) for a, b in re.findall(r"^peer (\d+) connected to (\d+)$", text, re.M)
    }
    greeted = {
        (int(b), int(a)) for a, b in re.findall(r"^peer (\d+): greeting from (\d+)$", text, re.M)
    }
    expected = {
        (node, target) for node, targets in DIALS["mesh", 3, 2].items() for target in targets
    }
    # A pod is complete, and exits here, when its own dials have succeeded. A greeting may arrive
    # too late to be printed.
    assert connected == expected, text
    assert greeted <= expected, text


def test_sigterm_ends_a_light_peer_while_a_peer_is_missing(addresses: list[str]) -> None:
    pod = start(1, addresses, "--forever", workers=1)
    try:
        assert pod.stdout is not None
        for line in pod.stdout:
            if "cannot reach 0" in line:
                break
        pod.send_signal(signal.SIGTERM)
        rest = pod.communicate(timeout=30)[0]
    finally:
        pod.kill()
        pod.wait()
    assert pod.returncode == 143, rest
    assert "Traceback" not in rest
