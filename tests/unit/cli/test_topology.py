"""`topology`: expected connections, parsing of socket tables, comparison and output."""

import socket
import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.cli.probing import Answer
from dijob.cli.topology import looking, show, svg
from dijob.cli.topology.compare import ProbedPod, Report, compare_connections
from dijob.cli.topology.expected import ExpectedWorld, world_of
from dijob.cli.topology.sockets import Sockets, parse_sockets, pod_addresses
from dijob.client import RankPod
from manifests import dijob

# Dialing rank and worker, listening rank and worker.
Edge = tuple[int, int, int, int]


def world(command: str = "a", *, status: Any = None, **spec: Any) -> ExpectedWorld:
    body = dijob("test", {"image": "x", "command": ["/bin/sh", "-c", command]}, **spec)
    return world_of(parse_job({**body, "status": status or {}}))


def edges(of: ExpectedWorld) -> set[Edge]:
    return {
        (dials.rank, worker, dials.to.rank, dials.to.worker)
        for dials in of.dials
        for worker in dials.workers
    }


def ip(rank: int) -> str:
    return f"10.0.0.{rank + 1}"


def row(local: tuple[str, int], remote: tuple[str, int], state: str, inode: int, more: str) -> str:
    ends = " ".join(
        f"{struct.unpack('<I', socket.inet_aton(host))[0]:08X}:{port:04X}"
        for host, port in (local, remote)
    )
    return f"   0: {ends} {state} 00000000:00000000 {more} 1000 0 {inode} 1 0 20 4 30 10 -1"


IDLE, RETRIES = "00:00000000 00000000", "01:00000100 00000005"


@dataclass(frozen=True)
class Fault:
    """`half`: the listener lacks this edge. `silent`: its data is not acknowledged."""

    half: Edge | None = None
    silent: Edge | None = None
    one_process: bool = False


def table(rank: int, up: Iterable[Edge], workers: int = 2, fault: Fault = Fault()) -> str:
    """Return the socket table of a pod when these edges are up."""
    rows, held = list[str](), dict[int, list[int]]()
    for worker in range(workers):
        pid = 100 if fault.one_process else 100 + worker
        rows.append(row((ip(rank), 50515 + worker), ("0.0.0.0", 0), "0A", 10 + worker, IDLE))
        held.setdefault(pid, []).append(10 + worker)
    for edge in up:
        a, from_worker, b, to_worker = edge
        near = 40000 + 1000 * a + 100 * from_worker + 10 * b + to_worker
        pid = 100 if fault.one_process else 100 + from_worker
        if a == rank:
            more = RETRIES if edge == fault.silent else IDLE
            rows.append(row((ip(a), near), (ip(b), 50515 + to_worker), "01", near, more))
            held.setdefault(pid, []).append(near)
        if b == rank and edge != fault.half:
            rows.append(row((ip(b), 50515 + to_worker), (ip(a), near), "01", 90000 + near, IDLE))
            held.setdefault(100 if fault.one_process else 100 + to_worker, []).append(90000 + near)
    open_files = "".join(
        f"/proc/{pid}/fd:\n" + "".join(f"socket:[{inode}]\n" for inode in inodes)
        for pid, inodes in held.items()
    )
    return "  sl  local_address rem_address   st\n" + "\n".join(rows) + "\n" + open_files


def pod(rank: int, text: str, problem: str = "") -> ProbedPod:
    known = parse_sockets(text) if text else None
    return ProbedPod(rank, f"test-{rank}", frozenset({ip(rank)}), known, problem, ready=True)


MESH = world(replicas=3, parallelWorkers=2)


def report(up: set[Edge], of: ExpectedWorld = MESH, fault: Fault = Fault()) -> Report:
    pods = [pod(rank, table(rank, up, of.workers, fault)) for rank in range(of.ranks)]
    return compare_connections("test", of, pods)


ALL = edges(MESH)


@pytest.mark.parametrize(
    ("of", "total"),
    [
        pytest.param(MESH, 15, id="mesh 3x2"),
        pytest.param(world(replicas=4, topology="star"), 3, id="star 4x1"),
        pytest.param(world(replicas=3, parallelWorkers=2, topology="star"), 11, id="star 3x2"),
        pytest.param(world(replicas=2, topology="alone"), 0, id="alone"),
        pytest.param(
            world(replicas=3, status={"succeededRanks": "1"}), 1, id="rank 1 has succeeded"
        ),
        pytest.param(
            world(replicas=3, parallelWorkers=2, messageQueue={"type": "redis"}), 6, id="redis"
        ),
        pytest.param(world("torchrun a.py", replicas=3, runtime="torch"), 2, id="torch"),
        pytest.param(world(replicas=3, runtime="oneflow"), 0, id="oneflow"),
        pytest.param(world(replicas=3, addressing="Hostname"), 3, id="by name"),
    ],
)
def test_how_many_connections_there_should_be(of: ExpectedWorld, total: int) -> None:
    assert of.total == total


@pytest.mark.parametrize(
    ("command", "spec", "port"),
    [
        pytest.param("a", {}, 50515, id="DI-engine's"),
        pytest.param("ditask --package p --main p.m --ports 6000", {}, 6000, id="--ports"),
        pytest.param("ditask --platform slurm", {"runtime": "slurm"}, 15151, id="slurm"),
        pytest.param(
            "torchrun --master_port=29501 a.py", {"runtime": "torch"}, 29501, id="--master_port"
        ),
    ],
)
def test_ports(command: str, spec: Any, port: int) -> None:
    assert {dials.to.port for dials in world(command, replicas=2, **spec).dials} == {port}


def test_the_output_of_a_pod_is_parsed() -> None:
    six = "   1: 0000000000000000FFFF00000100000A:C553 0000000000000000FFFF00000200000A:9C40"
    text = f"{six} 01 00000000:00000000 00:00000000 00000000 1000 0 77 1 0\n"
    held = "/proc/9/fd:\ntotal 0\nlrwx------ 1 0 0 64 Nov 25 12:00 5 -> socket:[77]\n"
    found = parse_sockets(text + held)
    (end,) = found.connections
    assert (end.local, end.near, end.remote, end.far) == ("10.0.0.1", 50515, "10.0.0.2", 40000)
    assert found.processes(frozenset({"77"})) == {9}
    assert parse_sockets("anything\nelse: but no table\n") == Sockets()
    assert list(pod_addresses({"podIPs": [{"ip": "fd00:0::1"}]})) == ["fd00::1"]


def test_a_whole_mesh() -> None:
    found = report(ALL)
    assert (found.whole, found.up, found.missing) == (True, 15, 0)
    assert show.format_report(found).endswith(
        "15 of 15 connections up (mesh, 3 ranks x 2 processes)"
    )


@pytest.mark.parametrize("edge", sorted(ALL), ids=str)
def test_one_that_is_missing_is_named(edge: Edge) -> None:
    found = report(ALL - {edge})
    (gone,) = (each for each in found.edges if each.missing)
    assert (gone.rank, *gone.workers, gone.to.rank, gone.to.worker) == edge
    assert (found.up, found.whole) == (14, False)


def test_its_words() -> None:
    said = show.format_report(report(ALL - {(2, 1, 0, 0)}))
    assert (
        "missing: rank 2 process 1 (node 5) -> rank 0 process 0 (node 0) port 50515:"
        " rank 0 listens on port 50515, but rank 2 is not connected" in said
    )
    assert "rank 2   rank 0   4          3    1         0" in said


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(
            Fault(half=(2, 1, 0, 0)),
            "(node 0) port 50515: half-open: rank 2 has the connection, rank 0 does not",
            id="half-open",
        ),
        pytest.param(
            Fault(silent=(2, 1, 0, 0)),
            "(node 0) port 50515: rank 2 is sending data that is not acknowledged",
            id="silent",
        ),
        pytest.param(
            Fault(half=(2, 1, 0, 0), one_process=True),
            "missing (1 of 2): rank 2 processes 0-1 (nodes 4-5) -> rank 0 process 0 (node 0)",
            id="processes cannot be distinguished",
        ),
    ],
)
def test_one_that_is_no_good(fault: Fault, said: str) -> None:
    found = report(ALL, fault=fault)
    assert (found.up, found.missing) == (14, 1)
    assert said in show.format_report(found)


def of_pods(texts: dict[int, str], problem: str) -> Report:
    return compare_connections(
        "test", MESH, [pod(rank, text, problem) for rank, text in texts.items()]
    )


def test_a_pod_that_cannot_be_asked_is_seen_from_its_peers() -> None:
    texts = {rank: table(rank, ALL) for rank in range(3)}
    one = of_pods({**texts, 1: ""}, "it can run none of python3")
    # Only the connection between its own two processes has no other end to look at.
    assert (one.up, one.missing, one.unknown) == (14, 0, 1)
    assert "14 of 15 connections up, 1 unknown" in show.format_report(one)
    assert show.report_data(one)["unreadable"] == {"1": "it can run none of python3"}
    two = of_pods({**texts, 1: "", 2: ""}, "it can run none of python3")
    assert (two.up, two.missing, two.unknown) == (9, 0, 6)


@pytest.mark.parametrize(
    ("texts", "problem", "said"),
    [
        pytest.param({0: "a", 1: "a"}, "", "rank 2 has no pod", id="no pod"),
        pytest.param(
            {0: "a", 1: "a", 2: ""},
            "not running (ImagePullBackOff)",
            "rank 2 is not running (ImagePullBackOff)",
            id="not running",
        ),
        pytest.param({0: "a", 1: "a", 2: "b"}, "", "nothing listens on port", id="not listening"),
    ],
)
def test_why_it_is_missing(texts: dict[int, str], problem: str, said: str) -> None:
    up = {edge for edge in ALL if 2 not in edge[::2]}
    tables = {
        rank: table(rank, up) if text == "a" else text and "/proc/1/fd:\n"
        for rank, text in texts.items()
    }
    assert said in show.format_report(of_pods(tables, problem))


def test_connections_whose_addresses_are_translated_count() -> None:
    """With NAT, the listener sees the address of a node instead of the dialer's."""
    of = world(replicas=2)
    near = row((ip(1), 41000), (ip(0), 50515), "01", 5, IDLE)
    far = row((ip(0), 50515), ("10.9.9.1", 41000), "01", 6, IDLE)
    listens = row((ip(0), 50515), ("0.0.0.0", 0), "0A", 7, IDLE)
    assert compare_connections("test", of, [pod(0, f"{far}\n{listens}"), pod(1, near)]).whole


def test_each_process_needs_a_connection_to_redis() -> None:
    of = world(replicas=1, parallelWorkers=2, messageQueue={"type": "redis", "host": "r"})
    rows = [row((ip(0), 40000 + i), ("10.9.9.9", 6379), "01", i, IDLE) for i in (1, 2)]
    held = "/proc/5/fd:\nsocket:[1]\nsocket:[2]\n"
    one = compare_connections("test", of, [pod(0, "\n".join([*rows, held]))])
    assert (one.up, one.missing) == (1, 1)
    both = held.replace("socket:[2]", "/proc/6/fd:\nsocket:[2]")
    assert compare_connections("test", of, [pod(0, "\n".join([*rows, both]))]).whole


def test_the_picture_has_a_description_for_screen_readers() -> None:
    drawn = svg.draw_report(report(ALL - {(2, 1, 0, 0)}))
    tree = ET.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert tree.findtext(f"{space}title") == "Connections of test"
    assert "missing: rank 2 process 1 (node 5)" in str(tree.findtext(f"{space}desc"))
    kinds = [line.get("class") for line in tree.iter(f"{space}line")]
    assert kinds == ["up", "missing", "up"]
    assert "3 of 4" in drawn
    assert drawn.count("http") == 1  # only the SVG namespace


def test_a_large_job_shows_only_incomplete_pairs() -> None:
    of = world(replicas=20)
    up = edges(of)
    pods = [pod(rank, table(rank, up - {(3, 0, 1, 0)}, 1)) for rank in range(20)]
    lines = show.format_report(compare_connections("test", of, pods)).splitlines()
    assert [line.split()[:4] for line in lines[:2]] == [
        ["FROM", "TO", "EXPECTED", "UP"],
        ["rank", "3", "rank", "1"],
    ]
    assert len(lines) == 5


@pytest.mark.parametrize(
    "text",
    [
        f"/proc/{'9' * 5000}/fd:",
        "0: 1:2:3 00000000:0000 01 0:0 0:0 0 0 0 1",
        "0: XYZ:1 00000000:0000 01 0:0 0:0 0 0 0 1",
        "0: 0:1 00000000:0000 01 0:0 0:0 0 0 0 1",
        "0: 0100007F:1 00000000:0000 01 01:0 zz 0 0 0 1",
        "0: : : 0A 0:0 0:0 0 0 0 1",
    ],
)
def test_an_answer_of_a_tenants_program_is_no_bug(text: str) -> None:
    """The container's `cat` belongs to the tenant, so its output is not trusted."""
    body = {"metadata": {"name": "test-0"}, "spec": {}, "status": {}}
    (found,) = looking.parse_answers([RankPod(body, 0)], {0: Answer(text)})
    assert found.sockets is not None or "invalid answer" in found.problem
