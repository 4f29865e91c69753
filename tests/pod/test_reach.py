"""ditask checks whether this rank reaches every peer to which it will connect, so that it never
hangs.
"""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster.waiting import until_true
from pod.boxes import FARAWAY, JOB, NET_NAMESPACE, SEED, Box
from ports import free_port


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
    while True:
        first = free_port()
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


NOWHERE = {"": "Network is unreachable", FARAWAY: "timed out"}


@pytest.mark.parametrize("network", NOWHERE, ids=["no-route", "no-answer"])
def test_an_unreachable_peer_ends_it_with_the_ranks_named(
    box: Box, image: Path, network: str
) -> None:
    log = box.path / "termination-log"
    log.touch()
    nodes = {"DI_NODES": "10.9.9.7,10.9.9.8,10.9.9.9", "DIJOB_REACH_SECONDS": "0.4"}
    inside = ["/bin/sh", "-c", network + 'exec "$@"', "sh", box.ditask, "-m", "a"]
    rc, out, err = box.run(
        [*NET_NAMESPACE, *inside],
        **JOB | {"DI_RANK": "2"} | nodes | {"DIJOB_TERMINATION_LOG": str(log)},
    )
    assert (rc, out) == (1, ""), err
    message = log.read_text()
    assert message in err
    assert message.startswith("rank 2 cannot reach rank 0 (10.9.9.7: ")
    assert [f"rank {i} (" in message for i in range(3)] == [True, True, False]
    assert "Gave up after 0.4 s" in message
    assert message.count("10.9.9.7") == 1
    assert NOWHERE[network] in message


def test_term_ends_the_wait_for_peers(box: Box, image: Path) -> None:
    box.shows("1", JOB["DI_NODES"])
    process = box.start([*NET_NAMESPACE, box.launch, "ditask", "-m", "a"], **JOB | {"DI_RANK": "1"})
    until_true("said", lambda: "cannot reach rank 0" in box.err())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)  # much sooner than the limit of 60 s
    assert process.returncode == 128 + signal.SIGTERM


def test_they_learn_too_that_all_are_reached(box: Box) -> None:
    env = JOB | {"DI_RANK": "2"}
    with listeners(2) as (port, seen):
        assert box.run([str(box.bin / "reach"), "star", str(port), "2"], **env) == (0, "", "")
        until_true("two connections", lambda: len(seen) == 2)


def test_a_ditask_that_still_waits_for_its_peers_does_not_work_alone(box: Box, image: Path) -> None:
    """The launcher's ditask has no --platform option until it becomes the image's ditask."""
    box.shows("1", "10.9.9.7,10.9.9.8", pod_ip="10.9.9.8")
    env = JOB | {"DI_NODES": "10.9.9.7,10.9.9.8", "DI_RANK": "1", "DIJOB_REACH_SECONDS": "2"}
    command = [*NET_NAMESPACE, box.launch, "ditask", *SEED]
    rc, _, err = box.run(command, **env, DIJOB_NAP="0.02")
    assert rc == 1
    assert "rank 1 cannot reach" in err
    assert "has not joined" not in err
