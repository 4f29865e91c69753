"""Address lists: the addresses of all ranks under one number, and the copy of one that a pod
has.
"""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class AddressList:
    """The addresses of all ranks, and the number of the list (0: none yet).

    `text` has them comma-separated in rank order, as in annotations; "" where they are not known.
    It is interned where it is made or read: of 1,500 copies each is compared in every pass.
    """

    number: int = 0
    text: str = ""

    @staticmethod
    def of(number: int, addresses: Iterable[str]) -> "AddressList":
        """The list of these addresses, which are in rank order."""
        return AddressList(number, sys.intern(",".join(addresses)))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses in rank order."""
        return _split(self.text)

    @property
    def digest(self) -> str:
        """128 bits of SHA-256 of the number and the addresses, as hex."""
        return _digest(self.number, self.text)


NO_LIST = AddressList()


@dataclass(frozen=True)
class ListCopy:
    """What a pod's annotations say of address lists.

    `pod_ip` is the address that the pod had when it was given the list, where that is not in it.
    `redis_run` identifies the run of the job's own Redis server that the list goes with.
    `renew_from` is the number of the first list that the pod's process may have: one with an older
    list starts again (0: any list will do). `first_shape` is that of the pod's containers when it
    was given its first list (observed/shape.py; "": unknown). `ends_counted` is how many ends of
    its program it has been told are counted. `derived` are the fingerprints of the annotations that
    are made of the list. `tampered`: somebody else has written some of this
    (address_list.py).
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
def _split(text: str) -> tuple[str, ...]:
    # Remembered: all pods of a job share one text, and each of 1,500 is asked for its entry in
    # every pass.
    return tuple(text.split(",")) if text else ()


@lru_cache(maxsize=256)
def _digest(number: int, text: str) -> str:
    return hashlib.sha256(f"{number} {text}".encode()).hexdigest()[:32]
