"""An address of this machine for each rank: 127.N.0.3 for rank 0, 127.N.0.4 for rank 1, ..."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from dijob.cli.errors import CliError, Exit
from dijob.names import BASE_PORT

# 127.0.0.2 stands in lists for a rank that has succeeded (core/membership/address_list.py): nobody
# waits for it.
FIRST = 3
# A run holds this port of 127.N.0.1, so that a second one takes another N.
LOCK_PORT = BASE_PORT - 1
RUNS = 64


@contextmanager
def addresses(size: int) -> Iterator[tuple[str, ...]]:
    """The addresses, which no other run has meanwhile. CliError where the machine does not have
    them (macOS has 127.0.0.1 alone)."""
    for run in range(RUNS):
        with socket.socket() as lock:
            try:
                lock.bind((f"127.{run}.0.1", LOCK_PORT))
                lock.listen(1)
            except OSError:
                continue
            found = tuple(address(run, rank) for rank in range(size))
            _check(found[-1])
            yield found
            return
    raise CliError(f"{RUNS} other runs hold 127.0.0.1 to 127.{RUNS - 1}.0.1: wait for one.")


def address(run: int, rank: int) -> str:
    """The address of a rank; above 250 ranks the next block."""
    block, host = divmod(rank, 250)
    return f"127.{run}.{block}.{host + FIRST}"


def _check(last: str) -> None:
    try:
        with socket.socket() as trial:
            trial.bind((last, 0))
    except OSError as error:
        raise CliError(
            f"this machine has no address {last} ({error.strerror}): add it and those before it to"
            f" the loopback device (macOS: sudo ifconfig lo0 alias {last}).",
            Exit.USAGE,
        ) from None
