"""What a runtime's file gives: a row of the table in runtimes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob import names
from dijob.core.members import Gang, Member

Env = Callable[[Member, Gang], dict[str, str]]
# What an annotation says, given the gang and its addresses in rank order.
AnnotationBuilder = Callable[[Gang, tuple[str, ...]], str]


@dataclass(frozen=True)
class Row:
    """One runtime.

    `env` gives the variables that are known when the pod is created. `list_env` are those that
    follow from the address list, each with the annotation that holds its value (annotations.py).
    `annotation_builders` give the values of the annotations in the runtime's traits (names.Traits).
    """

    env: Env
    list_env: Mapping[str, str] = field(default_factory=dict)
    annotation_builders: Mapping[str, AnnotationBuilder] = field(default_factory=dict)


# The address of rank 0, where processes meet.
MASTER: Final[Mapping[str, AnnotationBuilder]] = {names.ANNOTATION_MASTER: lambda _, ips: ips[0]}


def first_process(member: Member, gang: Gang, master_port: int) -> dict[str, str]:
    """Variables of a pod's first process, for programs that are started without torch's
    launchers."""
    return {
        "MASTER_PORT": str(master_port),
        "RANK": str(member.node_ids(gang.workers)[0]),
        "LOCAL_RANK": "0",
    }
