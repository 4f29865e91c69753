"""ditask checks whether this rank reaches every peer to which it will connect, so that it never
hangs.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster.waiting import until_true
from pod.boxes import ALONE, ENTER, FARAWAY, JOB, NET_NAMESPACE, SEED, WORLD, Box, arguments, told


@contextmanager
def listeners(count: int) -> Iterator[tuple[int, list[int]]]:
    """Listen on `count` consecutive ports. Each connection adds its port to the returned list."""
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
        # A third port, for one worker more than the job has, shows that there are no other
        # connections.
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
    """Listen on a port, and send this response to each PING."""

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
            "it requires a password, which DI-engine cannot send",
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\n",
            "not a Redis server: it answered 'HTTP/1.1 400 Bad Request'",
        ),
        (b"", "not a Redis server: it answered ''"),
    ],
    ids=["a password", "something else", "silence"],
)
def test_one_that_does_not_serve_is_named(box: Box, image: Path, answer: bytes, words: str) -> None:
    with redis(answer) as port:
        rc, _, err = box.run([box.ditask], **REDIS, DI_REDIS_PORT=str(port))
    assert rc == 1
    assert f"rank 0 cannot reach Redis (127.0.0.1: {words})" in err
    assert "Check the Redis server (spec.messageQueue)" in err


def test_one_that_refuses_is_named(box: Box, image: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    rc, _, err = box.run([box.ditask], **REDIS, DI_REDIS_PORT=str(port))
    assert rc == 1
    assert "rank 0 cannot reach Redis (127.0.0.1: Connection refused)" in err


NOWHERE = {"": "Network is unreachable", FARAWAY: "timed out"}


@pytest.mark.parametrize("network", NOWHERE, ids=["no-route", "no-answer"])
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
    inside = ["/bin/sh", "-c", network + 'exec "$@"', "sh", box.ditask, "-m", "a"]
    rc, out, err = box.run(
        [*NET_NAMESPACE, *inside], **JOB | env | nodes | {"DIJOB_TERMINATION_LOG": str(log)}
    )
    assert (rc, out) == (1, ""), err
    message = log.read_text()
    assert message in err
    assert message.startswith(f"rank {env['DI_RANK']} cannot reach {named[0]}")
    assert [f"rank {i} (" in message for i in range(3)] == [
        f"rank {i} (" in "".join(named) for i in range(3)
    ]
    assert "Gave up after 0.4 s" in message
    assert message.count("10.9.9.7") == 1
    assert NOWHERE[network] in message


def test_a_peer_that_comes_within_the_bound_is_waited_for(box: Box, image: Path) -> None:
    namespace = [*NET_NAMESPACE, "/bin/sh", "-c", 'exec "$@"', "sh"]
    process = box.start([*namespace, box.ditask, "-m", "a"], **JOB | {"DI_RANK": "1"})
    # Without its loopback device, the namespace has no route to 127.0.0.1.
    until_true(
        "said",
        lambda: (
            "dijob: cannot reach rank 0 (127.0.0.1: Network is unreachable); trying for up to 60 s"
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
    box.shows("1", JOB["DI_NODES"])
    process = box.start([*NET_NAMESPACE, box.launch, "ditask", "-m", "a"], **JOB | {"DI_RANK": "1"})
    until_true("said", lambda: "cannot reach rank 0" in box.err())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)  # much sooner than the limit of 60 s
    assert process.returncode == 128 + signal.SIGTERM


UNCHECKED = {
    "off": (["-m", "a"], {"DIJOB_REACH_SECONDS": "0"}, ""),
    "platform-spec": (
        ["--platform-spec", "{}"],
        {},
        "dijob: --platform-spec is given: no addresses are checked\n",
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


ASKED = {
    "mesh 50515 2": (3, "rank 2 cannot reach rank 0 (127.0.0.1: Network is unreachable), rank 1 ("),
    "star 50515 1": (
        3,
        "rank 2 cannot reach rank 0 (127.0.0.1: Network is unreachable). Gave up",
    ),
    "alone 50515 1 tcp://127.0.0.7:1": (3, "rank 2 cannot reach --attach-to (127.0.0.7: Network"),
    "redis 127.0.0.9 6379": (3, "rank 2 cannot reach Redis (127.0.0.9: Network is unreachable)"),
    "alone 50515 1": (0, ""),
    "mesh 50515": (2, "reach: usage: reach TOPOLOGY PORT WORKERS"),
}


@pytest.mark.parametrize("words", ASKED)
def test_programs_that_dial_without_ditask_may_ask(box: Box, words: str) -> None:
    """dijob-runtime does so. Exit code 3 means unreachable; any other code but 0 is a failure of
    the check.
    """
    code, said = ASKED[words]
    (box.path / "said-last").touch()
    env = JOB | {"DI_RANK": "2", "DIJOB_REACH_SECONDS": "0.1"}
    rc, out, err = box.run([*NET_NAMESPACE, str(box.bin / "reach"), *words.split()], **env)
    assert (rc, out) == (code, "")
    assert f"dijob: {said}" in err if said else not err
    assert box.said_last().startswith(said) if code == 3 else not box.said_last()


def test_they_learn_too_that_all_are_reached(box: Box) -> None:
    env = JOB | {"DI_RANK": "2"}
    with listeners(2) as (port, seen):
        assert box.run([str(box.bin / "reach"), "star", str(port), "2"], **env) == (0, "", "")
        until_true("two connections", lambda: len(seen) == 2)


def test_who_still_looks_for_its_peers_works_not_alone(box: Box, image: Path) -> None:
    """The launcher's ditask has no --platform option until it becomes the image's ditask."""
    box.shows("1", "10.9.9.7,10.9.9.8", pod_ip="10.9.9.8")
    env = JOB | {"DI_NODES": "10.9.9.7,10.9.9.8", "DI_RANK": "1", "DIJOB_REACH_SECONDS": "2"}
    command = [*NET_NAMESPACE, box.launch, "ditask", *SEED]
    rc, _, err = box.run(command, **env, DIJOB_NAP="0.02")
    assert rc == 1
    assert "rank 1 cannot reach" in err
    assert "has not joined" not in err
