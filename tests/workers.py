"""Names and ports for what several of xdist's workers have at a time."""

import os
import socket


def own(name: str) -> str:
    """The name, with the worker's behind it where there are workers: each has a cluster of its
    own.
    """
    return "-".join([name, *filter(None, [os.environ.get("PYTEST_XDIST_WORKER")])])


def free_port() -> int:
    """A port on loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
