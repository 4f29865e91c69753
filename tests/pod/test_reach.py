"""Our ditask looks whether this rank reaches every peer that it will dial, and never leaves it to
hang.
"""

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster.waiting import until_true
from dijob.pod import reach
from pod.boxes import ALONE, ENTER, JOB, NET_NAMESPACE, SEED, SHELLS, WORLD, Box, arguments, told


@contextmanager
def listeners(count: int) -> Iterator[tuple[int, list[int]]]:
    """`count` neighbouring ports on which somebody listens; the list grows by a port per
    connection.
    """
    seen: list[int] = []

    def accept(server: socket.socket, port: int) -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return
            seen.append(port)

    servers = [socket.socket() for _ in range(count)]
    for first in range(20000 + os.getpid() % 10000, 32000):
        try:
            for i, server in enumerate(servers):
                server.bind(("", first + i))
            break
        except OSError:
            for server in servers:
                server.close()
            servers = [socket.socket() for _ in range(count)]
    for i, server in enumerate(servers):
        server.listen()
        threading.Thread(target=accept, args=(server, first + i), daemon=True).start()
    yield first, seen
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@pytest.mark.parametrize(
    ("topology", "rank", "tried"),
    [("mesh", "2", 4), ("mesh", "1", 2), ("star", "2", 2), ("mesh", "0", 0), ("alone", "2", 0)],
)
def test_tries_each_address_once_that_it_will_dial(
    box: Box, image: Path, topology: str, rank: str, tried: int
) -> None:
    env = JOB | {"DI_RANK": rank, "DI_TOPOLOGY": topology, "DI_PARALLEL_WORKERS": "2"}
    with listeners(3) as (port, seen):
        _, err = told(box, ["--ports", str(port)], **env)
        until_true(f"{tried} connections", lambda: len(seen) >= tried)
        # The third port is the proof that nobody else comes: one worker more than the job has.
        socket.create_connection(("127.0.0.1", port + 2)).close()
        until_true("the last connection is ours", lambda: port + 2 in seen)
    assert sorted(seen) == sorted([port, port + 1] * (tried // 2) + [port + 2])
    assert err == ""


def test_the_users_attach_to_is_what_it_dials(box: Box, image: Path) -> None:
    with listeners(1) as (port, seen):
        told(box, ["--attach-to", f"tcp://127.0.0.9:{port}, ipc:///x, tcp://x:², tcp://y"], **JOB)
        until_true("a connection", lambda: seen)


def test_who_refuses_is_reached(box: Box, image: Path) -> None:
    start = time.monotonic()
    args, err = told(box, SEED, **JOB | {"DI_RANK": "2", "DI_PARALLEL_WORKERS": "2"})
    assert (args, err) == (WORLD + SEED, "")
    print(f"two peers, two workers: {time.monotonic() - start:.3f} s")


@contextmanager
def redis(answer: bytes) -> Iterator[int]:
    """A port on which everybody who says PING gets this answer."""

    def serve(server: socket.socket) -> None:
        while True:
            try:
                link = server.accept()[0]
            except OSError:
                return
            with link:
                assert link.recv(20) == b"PING\r\n"
                link.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


REDIS = {**JOB, "DI_MQ_TYPE": "redis", "DI_REDIS_HOST": "127.0.0.1", "DIJOB_REACH_SECONDS": "1"}


def test_a_redis_server_that_answers_is_reached(box: Box, image: Path) -> None:
    with redis(b"+PONG\r\n") as port:
        args, err = told(box, [], **REDIS, DI_REDIS_PORT=str(port))
    assert (args[-4:-2], err) == (["--redis-port", str(port)], "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b"-NOAUTH Authentication required.\r\n",
            "it asks for a password, which DI-engine does not know",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n", "no Redis server: it says 'HTTP/1.1 400 Bad Request'"),
        (b"", "no Redis server: it says ''"),
    ],
    ids=["a password", "something else", "silence"],
)
def test_one_that_does_not_serve_is_named(box: Box, image: Path, answer: bytes, words: str) -> None:
    with redis(answer) as port:
        rc, _, err = box.run([box.ditask], **REDIS, DI_REDIS_PORT=str(port))
    assert rc == 1
    assert f"rank 0 cannot reach redis (127.0.0.1: {words})" in err
    assert "that server (spec.messageQueue)" in err


def test_one_that_refuses_is_named(box: Box, image: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    rc, _, err = box.run([box.ditask], **REDIS, DI_REDIS_PORT=str(port))
    assert rc == 1
    assert "rank 0 cannot reach redis (127.0.0.1: Connection refused)" in err


FARAWAY = (
    "ip link set lo up; ip link add d0 type dummy; ip addr add 10.9.9.1/24 dev d0; ip link set d0"
    " arp off up; "
)
NOWHERE = {"no-route": "", "no-answer": FARAWAY}


@pytest.mark.parametrize("network", NOWHERE)
@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({"DI_RANK": "2"}, ["rank 0 (10.9.9.7: ", "rank 1 (10.9.9.8: "]),
        ({"DI_RANK": "2", "DI_TOPOLOGY": "star"}, ["rank 0 (10.9.9.7: "]),
        ({"DI_RANK": "1", "DI_PARALLEL_WORKERS": "3"}, ["rank 0 (10.9.9.7: "]),
    ],
    ids=["mesh", "star", "workers"],
)
def test_an_unreachable_peer_ends_it_with_the_ranks_named(
    box: Box, image: Path, network: str, env: dict[str, str], named: list[str]
) -> None:
    log = box.path / "termination-log"
    log.touch()
    nodes = {"DI_NODES": "10.9.9.7,10.9.9.8,10.9.9.9", "DIJOB_REACH_SECONDS": "0.4"}
    inside = ["/bin/sh", "-c", NOWHERE[network] + 'exec "$@"', "sh", box.ditask, "-m", "a"]
    rc, out, err = box.run(
        [*NET_NAMESPACE, *inside],
        **JOB | env | nodes | {"DIJOB_TERMINATION_LOG": str(log)},
        PATH=f"{box.env['PATH']}:/usr/sbin:/sbin:/bin",
    )
    assert (rc, out) == (1, ""), err
    message = log.read_text()
    assert message in err
    assert message.startswith(f"rank {env['DI_RANK']} cannot reach {named[0]}")
    assert [f"rank {i} (" in message for i in range(3)] == [
        f"rank {i} (" in "".join(named) for i in range(3)
    ]
    assert "After 0.4 s it ends" in message
    assert message.count("10.9.9.7") == 1
    if network == "no-route":
        assert "Network is unreachable" in message


def test_a_peer_that_comes_within_the_bound_is_waited_for(box: Box, image: Path) -> None:
    namespace = [*NET_NAMESPACE, "/bin/sh", "-c", 'exec "$@"', "sh"]
    process = box.start([*namespace, box.ditask, "-m", "a"], **JOB | {"DI_RANK": "1"})
    # Without its loopback device the namespace knows no way to 127.0.0.1.
    until_true(
        "said",
        lambda: (
            "dijob: cannot reach rank 0 (127.0.0.1: Network is unreachable); tries for 60 s"
            in box.err()
        ),
    )
    ip = [*ENTER, f"--target={process.pid}", "--net", "ip", "link", "set", "lo", "up"]
    assert os.spawnvp(os.P_WAIT, ip[0], ip) == 0
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, arguments(out)) == (0, [*WORLD, *ALONE, "-m", "a"])


def test_a_name_that_nobody_knows(box: Box, image: Path) -> None:
    env = JOB | {
        "DI_NODES": "no-such-host.invalid,127.0.0.1",
        "DI_RANK": "1",
        "DIJOB_REACH_SECONDS": "0.1",
    }
    rc, _, err = box.run([*NET_NAMESPACE, box.ditask, "-m", "a"], **env)
    assert rc == 1
    assert "rank 1 cannot reach rank 0 (no-such-host.invalid: " in err


def test_term_ends_the_wait_for_peers(box: Box, image: Path) -> None:
    process = box.start([*NET_NAMESPACE, box.launch, "ditask", "-m", "a"], **JOB | {"DI_RANK": "1"})
    until_true("said", lambda: "cannot reach rank 0" in box.err())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)  # of the 60 s that it would wait
    assert process.returncode == 128 + signal.SIGTERM


UNCHECKED = {
    "off": (["-m", "a"], {"DIJOB_REACH_SECONDS": "0"}, ""),
    "platform-spec": (
        ["--platform-spec", "{}"],
        {},
        "dijob: --platform-spec is given: addresses not checked\n",
    ),
    "another queue": (["--mq-type", "another"], {}, ""),
    "topology alone": (["--topology", "alone"], {}, ""),
}


@pytest.mark.parametrize("name", UNCHECKED)
def test_not_checked(box: Box, image: Path, name: str) -> None:
    args, env, said = UNCHECKED[name]
    rc, out, err = box.run([*NET_NAMESPACE, box.ditask, *args], **JOB | {"DI_RANK": "1"} | env)
    assert (rc, err) == (0, said)
    assert arguments(out)[-len(args) :] == args


# The static launcher asks no Python.
@pytest.mark.parametrize("box", list(SHELLS), indirect=True)
@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("", "no Python in PATH"),
        ("exit 1", "python3 .*reach.py failed"),
        ("exit 2", "python3 .*reach.py failed"),
    ],
    ids=["none", "broken", "too old"],
)
def test_without_a_useful_python_the_check_is_skipped(
    box: Box, image: Path, python: str, said: str
) -> None:
    image.write_text("#!/bin/sh\necho ran\n")
    (box.path / "python" / "python3").unlink()
    if python:
        box.script("python/python3", f"#!/bin/sh\n{python}\n")
    elif not box.is_busybox:
        box.env["PATH"] = f"{box.bin}:{image.parent}"
    rc, out, err = box.run([box.ditask], **JOB | {"DI_RANK": "1"})
    assert (rc, out) == (0, "ran\n")
    assert "addresses not checked" in err
    assert re.search(said, err), err


def test_the_users_modules_are_not_imported(box: Box, image: Path) -> None:
    box.script("socket.py", "raise SystemExit(9)\n")
    _, err = told(box, ["-m", "a"], **JOB | {"DI_RANK": "1", "PYTHONPATH": str(box.path)})
    assert err == ""


def test_a_long_list_fits_into_the_termination_message() -> None:
    names = {(f"10.0.{i // 250}.{i % 250}", 50515): f"rank {i}" for i in range(1499)}
    text = reach.describe(names, dict.fromkeys(names, "Network is unreachable"))
    assert text.endswith("rank 9 (10.0.0.9: Network is unreachable) and 1489 more")
    assert len(text) < 1024


def test_ipv6_addresses_lose_their_brackets() -> None:
    # [::1] refuses or accepts, whoever listens there: it is reached. With the brackets it would be
    # no name.
    assert reach.problem(("[::1]", 9), 1.0, False) == "", sys.platform
