#!/usr/bin/python3
"""A rank without DI-engine, for tests: listens on and dials the same addresses as ditask, and keeps
the connections.

It needs only Python's standard library, and starts faster than DI-engine. It reads the variables
that the operator sets: DI_RANK, DI_NODES, DI_PARALLEL_WORKERS and DI_TOPOLOGY.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

FIRST_PORT = 50515  # DI-engine 0.5.3, ding/entry/cli_parsers/k8s_parser.py: self.ports
REDIAL_SECONDS = 1.0
TOPOLOGIES = ("mesh", "star", "alone")


@dataclass(frozen=True)
class World:
    """The world according to the environment: one address per pod in rank order, and the number of
    workers per pod.
    """

    rank: int
    addresses: tuple[str, ...]
    workers: int
    topology: str

    @classmethod
    def read(cls, env: Mapping[str, str]) -> World:
        """Read the environment. If a variable is missing or out of range, raise a ValueError that
        names it.
        """
        try:
            addresses = tuple(env["DI_NODES"].split(","))
            rank = int(env["DI_RANK"])
        except KeyError as error:
            raise ValueError(f"{error.args[0]} is not set") from None
        workers = int(env.get("DI_PARALLEL_WORKERS") or 1)
        topology = env.get("DI_TOPOLOGY") or "mesh"
        if not 0 <= rank < len(addresses):
            raise ValueError(f"DI_RANK is {rank}, but DI_NODES has {len(addresses)} addresses")
        if workers < 1:
            raise ValueError(f"DI_PARALLEL_WORKERS is {workers}, must be 1 or more")
        if topology not in TOPOLOGIES:
            raise ValueError(f"DI_TOPOLOGY is {topology!r}, must be one of {', '.join(TOPOLOGIES)}")
        return cls(rank, addresses, workers, topology)

    def endpoint(self, node: int) -> tuple[str, int]:
        """Return the host and port on which the node with this ID listens."""
        rank, worker = divmod(node, self.workers)
        return self.addresses[rank].strip("[]"), FIRST_PORT + worker

    def mine(self) -> range:
        """Return the node IDs of this pod."""
        return range(self.rank * self.workers, (self.rank + 1) * self.workers)

    def dials(self, node: int) -> list[int]:
        """Return the IDs of the nodes that this node dials, in its own pod and in others.

        DI-engine 0.5.3 joins two lists: the nodes of its own pod (ding/framework/parallel.py,
        topology_network) and those of other pods (ding/entry/cli_parsers/k8s_parser.py,
        _get_attach_to). The second list is the same for each worker.
        """
        rank, worker = divmod(node, self.workers)
        first = rank * self.workers
        if self.topology == "mesh":
            return [*range(first, first + worker), *range(first)]
        if self.topology == "star":
            return [*range(first, first + min(1, worker)), *(range(self.workers) if rank else ())]
        return []

    def edges(self) -> set[tuple[int, int]]:
        """Return the (dialer, listener) pairs that have an end in this pod."""
        nodes = range(len(self.addresses) * self.workers)
        mine = self.mine()
        return {(a, b) for a in nodes for b in self.dials(a) if a in mine or b in mine}


@dataclass
class Mesh:
    """The connections of this pod. A connection counts if it has been up at least once, because
    peers that have finished may leave at any time.
    """

    world: World
    missing: set[tuple[int, int]] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def up(self, dialler: int, listener: int) -> None:
        """Record that a connection is up."""
        with self.changed:
            self.missing.discard((dialler, listener))
            self.changed.notify_all()

    def listen(self, node: int) -> None:
        """Bind at once, so that an error ends the program, and accept in a thread."""
        host, port = self.world.endpoint(node)
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        server = socket.create_server((host, port), family=family, backlog=1024)
        say(f"peer {node} listens on {host}:{port}")
        threading.Thread(target=self._accept, args=(node, server), daemon=True).start()

    def _accept(self, node: int, server: socket.socket) -> NoReturn:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=self._serve, args=(node, connection), daemon=True).start()

    def _serve(self, node: int, connection: socket.socket) -> None:
        """Read the greeting of a dialer, then wait until the dialer disconnects."""
        keep_alive(connection)
        try:
            with connection, connection.makefile("rb") as lines:
                words = lines.readline(64).split()
                if len(words) != 3 or words[:2] != [b"greeting", b"from"] or not words[2].isdigit():
                    return  # a probe, or another program
                dialler = int(words[2])
                say(f"peer {node}: greeting from {dialler}")
                self.up(dialler, node)
                lines.read()
        except OSError:
            pass
        else:
            say(f"peer {node}: {dialler} left")

    def dial(self, node: int, target: int) -> NoReturn:
        """Connect and stay connected. Dial again every second while there is no connection."""
        while True:
            try:
                with socket.create_connection(self.world.endpoint(target), timeout=5) as connection:
                    connection.settimeout(None)
                    keep_alive(connection)
                    # Print before the greeting, because the peer may end this process when the
                    # greeting arrives.
                    say(f"peer {node} connected to {target}")
                    connection.sendall(b"greeting from %d\n" % node)
                    self.up(node, target)
                    connection.recv(1)
                say(f"peer {node} lost {target}")
            except OSError as error:
                say(f"peer {node} cannot reach {target}: {error}")
            time.sleep(REDIAL_SECONDS)


def keep_alive(connection: socket.socket) -> None:
    """Enable TCP keepalive, to notice within seconds that a peer has vanished."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def say(text: str) -> None:
    """Print a line with one write, so that lines from different threads are not mixed."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def end_on_term() -> None:
    """Exit at once with 143 on SIGTERM. Call this before any other thread is started.

    A thread waits for the signal. A handler would run only in the main thread, and the main thread
    misses a signal that arrives just before it starts to wait.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(
        target=lambda: os._exit(128 + signal.sigwait({signal.SIGTERM})), daemon=True
    ).start()


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--seconds",
        type=float,
        default=0.0,
        help="seconds to stay after every connection was up (default 0)",
    )
    end.add_argument("--forever", action="store_true", help="stay until a signal ends it")
    parser.add_argument(
        "--exit-code", type=int, default=0, help="exit code at the end of --seconds (default 0)"
    )
    return parser.parse_args()


def main() -> int:
    """Run this pod's workers until every connection has been up once, and then for the time that
    the options set.
    """
    options = arguments()
    end_on_term()
    try:
        world = World.read(os.environ)
    except ValueError as error:
        print(f"light-peer: {error}", file=sys.stderr)
        return 2
    mesh = Mesh(world, world.edges())
    total, started = len(mesh.missing), time.monotonic()
    say(
        f"rank {world.rank} of {len(world.addresses)}, node ids {[*world.mine()]},"
        f" {world.topology}, {total} edges"
    )
    say(f"started at {time.time():.3f}")
    for node in world.mine():
        mesh.listen(node)
    for node in world.mine():
        for target in world.dials(node):
            threading.Thread(target=mesh.dial, args=(node, target), daemon=True).start()
    with mesh.changed:
        mesh.changed.wait_for(lambda: not mesh.missing)
    say(f"complete: {total} edges after {time.monotonic() - started:.3f} s")
    if options.forever:
        threading.Event().wait()
    time.sleep(options.seconds)
    return int(options.exit_code)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Do not use sys.exit: Python aborts if it exits while another thread prints.
    os._exit(code)
