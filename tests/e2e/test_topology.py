"""`kubectl dijob topology` against real pods: a complete mesh, and one with a cut connection."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from asked import asked
from cluster.shell import run
from faults.real_pods.looks import View
from jobs import config_map, job, mounted, peers, shell, start_redis
from space import Space

pytestmark = pytest.mark.e2e

# light-peer with one process per worker, as in DI-engine.
FORKED = """
import importlib.util, os, signal, sys, threading
from importlib.machinery import SourceFileLoader

loader = SourceFileLoader("peer", "/usr/local/bin/light-peer")
peer = importlib.util.module_from_spec(importlib.util.spec_from_loader("peer", loader))
sys.modules["peer"] = peer
loader.exec_module(peer)
world = peer.World.read(os.environ)
children = []
for node in world.mine():
    if child := os.fork():
        children.append(child)
        continue
    mesh = peer.Mesh(world, world.edges())
    mesh.listen(node)
    for target in world.dials(node):
        threading.Thread(target=mesh.dial, args=(node, target), daemon=True).start()
    threading.Event().wait()
signal.signal(signal.SIGTERM, lambda *_: [os.kill(child, 9) for child in children] and os._exit(0))
signal.pause()
"""
REDIS = """
import socket, time
kept = socket.create_connection(("redis", 6379))
time.sleep(3600)
"""


def until_says(space: Space, name: str, code: int, *said: str) -> str:
    """Poll until the command prints all of these parts, and exits with this code."""
    last = ""

    def problem() -> str:
        nonlocal last
        found, last = asked(space, "topology", name)
        return "" if found == code and all(part in last for part in said) else f"{found}: {last}"

    space.until(f"topology of {name} ends with {code} and says {said}", problem, 60)
    return last


def connection(space: Space, rank: int, worker: int, to: str, port: int) -> int:
    """Return the local port of a worker's connection. Each worker is a process."""
    rows = space.execute(f"world-{rank}", "ss", "-Htnp", "state", "established").splitlines()
    listens = space.execute(f"world-{rank}", "ss", "-Hltnp", f"sport = {50515 + worker}")
    pid = listens.split("pid=")[1].split(",")[0]
    (row,) = (row for row in rows if f"pid={pid}," in row and row.split()[3] == f"{to}:{port}")
    return int(row.split()[2].rpartition(":")[2])


def cut(space: Space, pod: str, near: int, to: str, port: int) -> None:
    """Drop a pod's packets of one connection, and prevent a new connection to the same target."""
    inside = ("nsenter", f"--target={View.of(space).pause(pod)}", "--net", "iptables", "-A")
    there = ("OUTPUT", "-p", "tcp", "-d", to, "--dport", str(port), "-j", "DROP")
    run([*inside, *there, "--sport", str(near)])
    run([*inside, *there, "--syn"])


def test_exactly_the_cut_edge_of_a_mesh_is_named(space: Space, tmp_path: Path) -> None:
    mount, volume = mounted("code", "/code")
    main = {"command": ["python3", "/code/main.py"], **mount}
    whole = job("world", main, pod=volume, replicas=3, parallelWorkers=2)
    space.apply(config_map("code", main_py=FORKED), whole)
    space.until_true("world", "Running")
    said = until_says(space, "world", 0, "15 of 15 connections up (mesh, 3 ranks x 2 processes)")
    assert "missing:" not in said

    to = space.ips("world")[0]
    cut(space, "world-2", connection(space, 2, 1, to, 50515), to, 50515)
    edge = "missing: rank 2 process 1 (node 5) -> rank 0 process 0 (node 0) port 50515"
    said = until_says(space, "world", 1, "14 of 15 connections up, 1 missing", edge)
    assert said.count("missing:") == 1, said

    drawn = tmp_path / "world.svg"
    code, told = asked(space, "topology", "world", "-o", "json", "--svg", str(drawn))
    (gone,) = (each for each in json.loads(told)["edges"] if each["state"] != "up")
    assert (code, gone["from"]["nodeIds"], gone["to"]["rank"]) == (1, [5], 0)
    kinds = [each.get("class") for each in ET.parse(drawn).iter() if each.tag.endswith("line")]
    assert sorted(map(str, kinds)) == ["missing", "up", "up"]


def test_the_connections_of_other_shapes(space: Space) -> None:
    """All workers in one process, a star, a rank that does not listen, and Redis."""
    main = {"command": ["python3", "-c", REDIS]}
    queue = {"messageQueue": {"type": "redis", "host": "redis"}}
    waits = 'if [ "$DI_RANK" = 1 ]; then exec sleep 3600; fi; exec light-peer --forever'
    start_redis(space)
    space.apply(
        peers("star", "--forever", replicas=3, parallelWorkers=2, topology="star"),
        shell("late", waits, replicas=3),
        job("queue", main, **queue),
    )
    for name in ("star", "late", "queue"):
        space.until_true(name, "Running")
    until_says(space, "star", 0, "11 of 11 connections up (star")
    said = until_says(space, "late", 1, "1 of at least 3 connections up, 2 missing (mesh")
    assert "rank 2 -> rank 1 port 50515: nothing listens on port 50515 of rank 1" in said
    assert "missing: rank 1 -> rank 0 port 50515: rank 0 listens on port 50515, but" in said
    until_says(space, "queue", 0, "2 of at least 2 connections up (redis")
    space.kubectl("delete", "pod", "redis", "--now")
    until_says(space, "queue", 1, "0 of at least 2 connections up, 2 missing (redis")
