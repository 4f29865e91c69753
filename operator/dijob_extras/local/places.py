"""Assigns a loopback address to each rank: 127.N.0.3 for rank 0, 127.N.0.4 for rank 1, ...

With one shared address, each rank would need its own ports, but DI-engine numbers the ports of all
processes from the same base port.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from dijob.cli.errors import CliError, Exit
from dijob.names import BASE_PORT

# 127.0.0.2 is the placeholder of a completed rank in peer lists
# (core/membership/address_list.py), so no rank may have it.
FIRST = 3
# Each run listens on this port at its own address, 127.N.0.1. A second run finds the port in use
# and tries the next N. The kernel frees the port even if the run is killed.
LOCK_PORT = BASE_PORT - 1
RUNS = 64


@contextmanager
def reserve_addresses(size: int) -> Iterator[tuple[str, ...]]:
    """Reserve the addresses, so that no other run uses them at the same time.

    Raises CliError if the machine lacks them: macOS has only 127.0.0.1.
    """
    for run in range(RUNS):
        with socket.socket() as lock:
            try:
                lock.bind((f"127.{run}.0.1", LOCK_PORT))
                lock.listen(1)
            except OSError:
                continue
            # It is enough to check the last address. On Linux, all addresses work. On other systems
            # the user must add them to the loopback device, and the error message says to add all
            # of them.
            found = tuple(rank_address(run, rank) for rank in range(size))
            _check_address(found[-1])
            yield found
            return
    raise CliError(
        f"{RUNS} other runs use the addresses 127.0.0.1 to 127.{RUNS - 1}.0.1: wait until one ends"
    )


def rank_address(run: int, rank: int) -> str:
    """Return the address of a rank. Each value of the third octet is used for 250 ranks."""
    block, host = divmod(rank, 250)
    return f"127.{run}.{block}.{host + FIRST}"


def _check_address(last: str) -> None:
    try:
        with socket.socket() as trial:
            trial.bind((last, 0))
    except OSError as error:
        raise CliError(
            f"this machine does not have the address {last} ({error.strerror}): add all addresses"
            f" up to it to the loopback device (macOS: sudo ifconfig lo0 alias {last})",
            Exit.USAGE,
        ) from None
