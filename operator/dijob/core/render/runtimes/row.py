"""The type of the rows in the table of runtimes. Each runtime's file defines its own row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob import names
from dijob.core.members import Gang, GangMember

Env = Callable[[GangMember, Gang], dict[str, str]]
# Returns the value of an annotation, given the gang and its addresses in rank order.
AnnotationBuilder = Callable[[Gang, tuple[str, ...]], str]


@dataclass(frozen=True)
class RuntimeRow:
    """One runtime.

    `env` returns the variables that are known when the pod is created. `list_env` contains the
    variables that depend on the peer list, each with the annotation that holds its value
    (annotations.py). `annotation_builders` return the values of the annotations in the runtime's
    traits (names.RuntimeTraits).
    """

    env: Env
    list_env: Mapping[str, str] = field(default_factory=dict)
    annotation_builders: Mapping[str, AnnotationBuilder] = field(default_factory=dict)


# The address of rank 0, where the processes rendezvous.
MASTER: Final[Mapping[str, AnnotationBuilder]] = {names.ANNOTATION_MASTER: lambda _, ips: ips[0]}


def first_process(member: GangMember, gang: Gang, master_port: int) -> dict[str, str]:
    """Return the variables of a pod's first process, for programs that are started without torch's
    launchers.
    """
    return {
        "MASTER_PORT": str(master_port),
        "RANK": str(member.position * gang.workers),
        "LOCAL_RANK": "0",
    }
