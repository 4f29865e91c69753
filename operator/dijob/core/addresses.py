"""Peer lists: the addresses of all ranks under one revision, and a pod's copy of such a list."""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class AddressList:
    """A peer list: the addresses of all ranks, and the revision (`number`; 0: no list yet).

    `text` contains the comma-separated addresses in rank order, as in annotations, or is "" if they
    are not known. `text` is interned when it is created or read, because each reconciliation
    compares up to 1,500 copies.
    """

    number: int = 0
    text: str = ""

    @staticmethod
    def of(number: int, addresses: Iterable[str]) -> "AddressList":
        """Return the peer list with these addresses, which must be in rank order."""
        return AddressList(number, sys.intern(",".join(addresses)))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses in rank order."""
        return _split_addresses(self.text)

    @property
    def digest(self) -> str:
        """The first 128 bits of the SHA-256 hash of the revision and the addresses, in hex."""
        return _list_digest(self.number, self.text)


NO_LIST = AddressList()


@dataclass(frozen=True)
class ListCopy:
    """The peer list in a pod's annotations, and the values stored with it.

    `pod_ip` is the address that the pod had when it got the list. It is set only if the list has
    names instead of addresses. `redis_run` identifies the run of the job's own Redis server at the
    time when the pod got the list. `renew_from` is the oldest revision that the pod's process may
    have (0: any revision is allowed). A process with an older revision restarts. `first_shape` is
    the shape of the pod's containers when it got its first list (observed/shape.py; "": unknown).
    `ends_counted` is how many terminations of the pod's program the operator has confirmed as
    counted. `derived` are the fingerprints of the annotations that are derived from the list.
    `tampered`: somebody else has edited some of these annotations (address_list.py).
    """

    address_list: AddressList = NO_LIST
    pod_ip: str = ""
    redis_run: str = ""
    renew_from: int = 0
    first_shape: str = ""
    ends_counted: int = 0
    derived: frozenset[tuple[str, str]] = frozenset()
    tampered: bool = False


@lru_cache(maxsize=256)
def _split_addresses(text: str) -> tuple[str, ...]:
    # Cached: all pods of a job share one text, and each reconciliation looks up the address of
    # every pod (up to 1,500).
    return tuple(text.split(",")) if text else ()


@lru_cache(maxsize=256)
def _list_digest(number: int, text: str) -> str:
    return hashlib.sha256(f"{number} {text}".encode()).hexdigest()[:32]
