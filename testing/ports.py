"""Ports on this machine for servers that tests start.

A port that the kernel chooses is not safe. Until the server listens, the kernel can assign the port
to a client's connection or to another process of the tests. So these ports are below the kernel's
range for clients, and each xdist worker has its own range. A process gets the same port again only
after it has used all the other ports in its range.
"""

import errno
import os
import random
import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle

# The kernel gives clients ports from 32,768 upward (net.ipv4.ip_local_port_range).
FIRST, LAST, PER_WORKER = 20_000, 32_000, 1_000


def free_port() -> int:
    """Return a port on which nothing listens, on any IPv4 or IPv6 address."""
    candidates = _candidates(os.environ.get("PYTEST_XDIST_WORKER", ""))
    while True:
        port = next(candidates)
        if _is_free(port):
            return port


def ports_of(worker: str) -> range:
    """Return the port range of an xdist worker (`gw0`), or of any other process ("")."""
    ranges = (LAST - FIRST) // PER_WORKER
    # The last range is for processes that are not workers.
    number = int(worker.removeprefix("gw")) % (ranges - 1) if worker else ranges - 1
    return range(FIRST + number * PER_WORKER, FIRST + (number + 1) * PER_WORKER)


@cache
def _candidates(worker: str) -> Iterator[int]:
    """Return an endless iterator over the ports in a random order, so that two simultaneous runs
    rarely begin with the same port.
    """
    return cycle(random.sample(ports_of(worker), PER_WORKER))


def _is_free(port: int) -> bool:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=both).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    return True
