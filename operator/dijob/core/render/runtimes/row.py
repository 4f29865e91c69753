"""What a runtime's file gives: a row of the table in runtimes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob import names
from dijob.core.members import Gang, Member

Env = Callable[[Member, Gang], dict[str, str]]
Words = Callable[[Gang, tuple[str, ...]], str]


@dataclass(frozen=True)
class Row:
    """One runtime.

    `env` gives the variables that are known when the pod is created. `listed` are those that follow from the address
    list: each is an annotation, which is written with the list (annotations.py). `words` say what is in the annotations
    that only this runtime has: what they make of a list, address by address in rank order.
    """

    env: Env
    listed: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Words] = field(default_factory=dict)


# The address of rank 0, where processes meet.
MASTER: Final[Mapping[str, Words]] = {names.ANNOTATION_MASTER: lambda _gang, addresses: addresses[0]}


def first_process(member: Member, gang: Gang, master_port: int) -> dict[str, str]:
    """What torch's launchers tell the first process of a pod, for programs that are started without one."""
    return {
        "MASTER_PORT": str(master_port),
        "RANK": str(member.node_ids(gang.workers)[0]),
        "LOCAL_RANK": "0",
    }
