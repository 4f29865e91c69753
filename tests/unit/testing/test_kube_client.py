"""The tests' Kubernetes client leaves no open connection. (Its warning would fail another test.)"""

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread

import pytest
import trustme
from faults.lab.kube import Access, Kube


@pytest.fixture
def silent_peer() -> Iterator[Access]:
    """Yield a TLS server that sends the header of a response and then nothing more, not even a
    close message.
    """
    authority, context, trust = (
        trustme.CA(),
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(),
    )
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(trust)
    kept: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection = context.wrap_socket(server.accept()[0], server_side=True)
                kept.append(connection)
                connection.recv(65536)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n"
                )

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=serve)
        thread.start()
        try:
            yield Access(f"https://127.0.0.1:{server.getsockname()[1]}", "token", trust)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


async def test_a_watch_that_is_cancelled_leaves_no_transport(silent_peer: Access) -> None:
    seen = asyncio.Event()

    async def follow() -> None:
        async for _ in kube.events("/pods", "0"):
            seen.set()

    async with Kube(silent_peer) as kube:
        watch = asyncio.create_task(follow())
        await asyncio.wait_for(seen.wait(), 10)
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
    assert not _connected_to(int(silent_peer.server.rpartition(":")[2]))


def _connected_to(port: int) -> list[int]:
    """Return the file descriptors of this process that are connected to a port."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError), socket.socket(fileno=os.dup(fd)) as copy:
            if copy.getpeername()[1:2] == (port,):
                found.append(fd)
    return found
