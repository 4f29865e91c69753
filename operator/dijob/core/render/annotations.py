"""What is written on a pod that is there: an address list, which becomes variables and files in it,
or its end.
"""

import json
from functools import lru_cache
from typing import Any, Final

from dijob import names
from dijob.core.actions import ConfirmEnds, PublishAddresses
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, GangTask
from dijob.core.observed.derived import list_fingerprints
from dijob.core.observed.parse import END_SECONDS
from dijob.core.render.fields import Manifest
from dijob.core.render.runtimes import RUNTIMES
from dijob.names import Addressing, Runtime

# What an address list decides.
VARIABLES: Final = {
    "DI_NODES": names.ANNOTATION_IPS,
    "DI_NODE_IPS": names.ANNOTATION_IPS,
    "DI_LIST_NUMBER": names.ANNOTATION_LIST_NUMBER,
    "DI_NUM_NODES": names.ANNOTATION_NUM_NODES,
    "DI_WORLD_SIZE": names.ANNOTATION_WORLD_SIZE,
}
# A deadline is the one way to end a pod that starts again and again and to keep its logs, which go
# with a pod that is deleted: the status of a pod could be written as well, but the right to do so
# is one over all pods. The words for it are the kubelet's, and nobody has set such a deadline, so
# they are explained where they are seen.
ENDED = (
    "The job has failed. The operator ended this pod through activeDeadlineSeconds so that its logs"
    " are kept. Therefore the kubelet reports DeadlineExceeded, and ContainerStatusUnknown for a"
    " container that was waiting to restart. The container's lastState shows how its program ended"
)


def variables(gang: Gang) -> list[tuple[str, str]]:
    """The variables of the main container, each with its annotation."""
    common = [
        (k, v)
        for k, v in VARIABLES.items()
        if k != "DI_NODE_IPS" or gang.addressing is Addressing.IP
    ]
    tasks = ((names.nodes_variable(task.name), _annotation(task)) for task in gang.tasks)
    return [*common, *tasks, *RUNTIMES[gang.runtime].list_env.items()]


def listed(runtime: Runtime, taken: frozenset[str]) -> dict[str, str]:
    """The runtime's variables that follow from the list, each with the annotation, without its
    prefix, that the launcher takes it from; without those that are `taken` by the user.
    """
    found = RUNTIMES[runtime].list_env
    return {name: key.rpartition("/")[2] for name, key in found.items() if name not in taken}


def slices(gang: Gang, taken: frozenset[str]) -> str:
    """How the launcher divides a list among the tasks' variables: "LEARNER 1 COLLECTOR 2", the rest
    is the last's. "_" is a variable that is `taken` by the user.
    """
    words = (
        "_" if names.nodes_variable(task.name) in taken else names.task_word(task.name)
        for task in gang.tasks
    )
    return " ".join(f"{word} {task.size}" for word, task in zip(words, gang.tasks, strict=True))


@lru_cache(maxsize=64)
def tasks_lists(gang: Gang, address_list: AddressList) -> dict[str, str]:
    """The annotations that hold each task's part of a list. One that has none left yet is empty."""
    ips = address_list.addresses
    ends = [task.first + task.size for task in gang.tasks[:-1]] + [len(ips)] * bool(gang.tasks)
    return {
        _annotation(task): ",".join(ips[task.first : end])
        for task, end in zip(gang.tasks, ends, strict=True)
    }


def _annotation(task: GangTask) -> str:
    return f"{names.ANNOTATION_TASK_NODES}{task.name}"


def addresses_patch(gang: Gang, action: PublishAddresses) -> Manifest:
    """The merge patch that opens a pod's gate: the address list, its number, and what follows from
    it.

    managedFields are emptied on the way ([{}] clears them, as Kubernetes documents): it makes this
    and every later write of the pod cheaper for the apiserver (0.76 of the time,
    docs/decisions/003).
    """
    copy = action.copy
    annotations = {
        names.ANNOTATION_IPS: copy.address_list.text,
        **made_for(gang, copy.address_list, action.reads),
        **({names.ANNOTATION_POD_IP: copy.pod_ip} if copy.pod_ip else {}),
        # None takes away what somebody else may have written there.
        names.ANNOTATION_RENEW: str(copy.renew_from) if copy.renew_from else None,
        **({names.ANNOTATION_BROKER: copy.redis_run} if copy.redis_run else {}),
        **({names.ANNOTATION_SHAPE: copy.first_shape} if copy.first_shape else {}),
    }
    labels = {names.LABEL_JOB: gang.job, names.LABEL_RANK: str(gang.rank_of(action.name))}
    return {
        "metadata": {
            "uid": action.uid,
            "managedFields": [{}],
            "labels": labels,
            "annotations": annotations,
        }
    }


@lru_cache(maxsize=16)
def made_of(gang: Gang, address_list: AddressList) -> dict[str, str]:
    """The annotations that follow from a list, the same on each pod of the job (to be read
    only).
    """
    ips = address_list.addresses
    return {
        names.ANNOTATION_LIST_NUMBER: str(address_list.number),
        names.ANNOTATION_NUM_NODES: str(len(ips)),
        names.ANNOTATION_WORLD_SIZE: str(len(ips) * gang.workers),
        names.ANNOTATION_TOPOLOGY: topology_json(gang, address_list),
        **tasks_lists(gang, address_list),
        **{
            key: build(gang, ips)
            for key, build in RUNTIMES[gang.runtime].annotation_builders.items()
        },
    }


def made_for(gang: Gang, address_list: AddressList, reads: frozenset[str]) -> dict[str, str]:
    """Those of `made_of` that a pod needs which `reads` annotations of these names: the launcher
    makes all others of the list itself.
    """
    needed = {names.ANNOTATION_LIST_NUMBER, *gang.runtime.traits.annotations, *reads}
    made = made_of(gang, address_list)
    return {key: value for key, value in made.items() if key in needed}


@lru_cache(maxsize=64)
def derived(
    gang: Gang, address_list: AddressList, reads: frozenset[str]
) -> frozenset[tuple[str, str]]:
    """The fingerprints of `made_for`."""
    return list_fingerprints(made_for(gang, address_list, reads))


@lru_cache(maxsize=16)
def topology_json(gang: Gang, address_list: AddressList) -> str:
    """/run/dijob/topology.json: the world as it is now, for programs that live through growth and
    shrinkage. Where a launcher stands, it makes the same of the list (images/launcher/topology.go).

    Index = rank in nodeIps and firstNodeIds; a rank has parallelWorkers node ids from its first one
    on. Short, because each of up to 1,500 pods carries it, and Kubernetes bounds all annotations of
    an object at 256 KiB in sum. Remembered, because it is the same for each of them.
    """
    ips = address_list.addresses
    world = {
        "listNumber": address_list.number,
        "worldSize": len(ips) * gang.workers,
        "numNodes": len(ips),
        "parallelWorkers": gang.workers,
        "topology": gang.topology.value,
        "nodeIps" if gang.addressing is Addressing.IP else "nodeNames": ips,
        "firstNodeIds": [gang.member(rank).node_ids(gang.workers)[0] for rank in range(len(ips))],
    }
    return json.dumps(world, separators=(",", ":"))


def ends_patch(action: ConfirmEnds) -> Manifest:
    """What is written to a pod whose program may start again after a failure."""
    annotations = {names.ANNOTATION_ENDS: str(action.ends)}
    return {"metadata": {"uid": action.uid, "annotations": annotations}}


def end_patch(uid: str) -> dict[str, Any]:
    """What is written to a pod that is ended and keeps its logs."""
    return {
        "metadata": {"uid": uid, "annotations": {names.ANNOTATION_ENDED: ENDED}},
        "spec": {"activeDeadlineSeconds": END_SECONDS},
    }
