"""Renders patches of existing pods.

One patch writes the peer list, which becomes variables and files in the pod. Another one terminates
a pod, but keeps its logs.

Annotations are the only part of a running pod that the operator can change and its containers can
read (docs/decisions/003).
"""

import json
from functools import lru_cache
from typing import Any, Final

from dijob import names
from dijob.core.actions import ConfirmEnds, PublishAddresses
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, GangMember, GangTask
from dijob.core.observed.derived import list_fingerprints
from dijob.core.observed.parse import END_SECONDS
from dijob.core.render.fields import Manifest
from dijob.core.render.runtimes import RUNTIMES
from dijob.names import Addressing, Runtime

# The variables that depend on the peer list, each with the annotation that holds its value.
VARIABLES: Final = {
    "DI_NODES": names.ANNOTATION_IPS,
    "DI_NODE_IPS": names.ANNOTATION_IPS,
    "DI_LIST_NUMBER": names.ANNOTATION_LIST_NUMBER,
    "DI_NUM_NODES": names.ANNOTATION_NUM_NODES,
    "DI_WORLD_SIZE": names.ANNOTATION_WORLD_SIZE,
}
# If a pod restarts repeatedly, the operator terminates the pod by setting a deadline, so that its
# logs are kept. A deletion would remove the logs. Writing the pod's status would keep them, too,
# but the permission to write it would apply to all pods. The kubelet reports this deadline,
# although the user has not set it. So the operator also adds an explanation to the pod: an
# annotation with the text below.
ENDED = (
    "The job has failed. The operator ended this pod through activeDeadlineSeconds so that its logs"
    " are kept. Therefore the kubelet reports DeadlineExceeded, and ContainerStatusUnknown for a"
    " container that was waiting to restart. The container's lastState shows how its program ended"
)


def list_variables(gang: Gang, member: GangMember) -> list[tuple[str, str]]:
    """Return the variables of a member's main container that depend on the peer list, each with its
    annotation.
    """
    common = [
        (k, v)
        for k, v in VARIABLES.items()
        if k != "DI_NODE_IPS" or gang.addressing is Addressing.IP
    ]
    tasks = ((names.nodes_variable(task.name), _task_annotation(task)) for task in gang.tasks)
    return [*common, *tasks, *_runtime_variables(gang, member).items()]


def runtime_list_variables(gang: Gang, member: GangMember, taken: frozenset[str]) -> dict[str, str]:
    """Return the variables of the member's runtime that depend on the list.

    Each variable is paired with the name (without prefix) of the annotation from which the launcher
    reads it. Variables `taken` by the user are left out.
    """
    found = _runtime_variables(gang, member)
    return {name: key.rpartition("/")[2] for name, key in found.items() if name not in taken}


def _runtime_variables(gang: Gang, member: GangMember) -> dict[str, str]:
    """Return the variables of the member's runtime that depend on the list, each with its
    annotation. If a task is a separate world, the names of its annotations end with the task's
    name.
    """
    task, env = member.own_world, RUNTIMES[gang.runtime_of(member.rank)].list_env
    return {name: _of_task(key, task) if task else key for name, key in env.items()}


def task_slices(gang: Gang, taken: frozenset[str]) -> str:
    """Return how the launcher divides a list among the tasks' variables: "LEARNER 1 COLLECTOR 2".
    The last task gets the rest. "_" stands for a variable that is `taken` by the user.
    """
    words = (
        "_" if names.nodes_variable(task.name) in taken else names.task_word(task.name)
        for task in gang.tasks
    )
    return " ".join(f"{word} {task.size}" for word, task in zip(words, gang.tasks, strict=True))


@lru_cache(maxsize=64)
def tasks_lists(gang: Gang, address_list: AddressList) -> dict[str, str]:
    """Return the annotations that hold each task's part of a list. They are empty for a task
    without members.
    """
    ips = address_list.addresses
    ends = [task.first + task.size for task in gang.tasks[:-1]] + [len(ips)] * bool(gang.tasks)
    return {
        _task_annotation(task): ",".join(ips[task.first : end])
        for task, end in zip(gang.tasks, ends, strict=True)
    }


def _task_annotation(task: GangTask) -> str:
    return f"{names.ANNOTATION_TASK_NODES}{task.name}"


def _of_task(annotation: str, task: GangTask) -> str:
    return f"{annotation}-{task.name}"


def _own_world(gang: Gang, task: GangTask, listed: str) -> dict[str, str]:
    """Return the annotations of a task that is a separate world. `listed` are the addresses of its
    ranks.
    """
    if task.own_runtime is None:
        return {}
    ips = tuple(filter(None, listed.split(",")))
    made = {
        names.ANNOTATION_NUM_NODES: str(len(ips)),
        names.ANNOTATION_WORLD_SIZE: str(len(ips) * gang.workers),
        **_built_annotations(gang, task.own_runtime, ips),
    }
    return {_of_task(key, task): value for key, value in made.items()}


def _built_annotations(gang: Gang, runtime: Runtime, ips: tuple[str, ...]) -> dict[str, str]:
    builders = RUNTIMES[runtime].annotation_builders
    return {key: build(gang, ips) for key, build in builders.items()} if ips else {}


def addresses_patch(gang: Gang, action: PublishAddresses) -> Manifest:
    """Return the merge patch that opens a pod's gate: the peer list, its revision, and what is
    derived from it.

    It also clears managedFields (with [{}], as Kubernetes documents). This write and every later
    write to the pod are therefore cheaper for the API server: each takes 0.76 times as long
    (docs/decisions/003).
    """
    copy = action.copy
    annotations = {
        names.ANNOTATION_IPS: copy.address_list.text,
        **made_for(gang, copy.address_list, action.reads, gang.rank_of(action.name)),
        **({names.ANNOTATION_POD_IP: copy.pod_ip} if copy.pod_ip else {}),
        # The value None removes the annotation, which somebody else may have written.
        names.ANNOTATION_RENEW: str(copy.renew_from) if copy.renew_from else None,
        **({names.ANNOTATION_BROKER: copy.redis_run} if copy.redis_run else {}),
        **({names.ANNOTATION_SHAPE: copy.first_shape} if copy.first_shape else {}),
    }
    # The labels are written again, because somebody may have edited them.
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
    """Return the annotations that are derived from a list. They are the same on each pod of the
    job. The result is cached and must not be modified.
    """
    ips, of_tasks = address_list.addresses, tasks_lists(gang, address_list)
    worlds = (_own_world(gang, task, of_tasks[_task_annotation(task)]) for task in gang.tasks)
    return {
        names.ANNOTATION_LIST_NUMBER: str(address_list.number),
        names.ANNOTATION_NUM_NODES: str(len(ips)),
        names.ANNOTATION_WORLD_SIZE: str(len(ips) * gang.workers),
        names.ANNOTATION_TOPOLOGY: topology_json(gang, address_list),
        **of_tasks,
        **{key: value for world in worlds for key, value in world.items()},
        **_built_annotations(gang, gang.runtime, ips),
    }


def made_for(
    gang: Gang, address_list: AddressList, reads: frozenset[str], rank: int
) -> dict[str, str]:
    """Return the annotations of `made_of` that the pod of this rank needs. `reads` are the
    annotations to which the pod's spec refers. The launcher computes the values of the remaining
    annotations from the peer list (docs/decisions/024).
    """
    return _made_for(gang, address_list, reads, gang.member(rank).own_world)


def derived_fingerprints(
    gang: Gang, address_list: AddressList, reads: frozenset[str], rank: int
) -> frozenset[tuple[str, str]]:
    """Return the fingerprints of `made_for`."""
    return _fingerprints_for(gang, address_list, reads, gang.member(rank).own_world)


def _made_for(
    gang: Gang, address_list: AddressList, reads: frozenset[str], world: GangTask | None
) -> dict[str, str]:
    # The launcher counts the nodes of the job, but not those of a task.
    env = RUNTIMES[world.own_runtime].list_env if world and world.own_runtime else {}
    of_world = (_of_task(key, world) for key in env.values()) if world else ()
    own = (*gang.runtime.traits.annotations, *of_world)
    needed = {names.ANNOTATION_LIST_NUMBER, *own, *reads}
    made = made_of(gang, address_list)
    return {key: value for key, value in made.items() if key in needed}


@lru_cache(maxsize=64)
def _fingerprints_for(
    gang: Gang, address_list: AddressList, reads: frozenset[str], world: GangTask | None
) -> frozenset[tuple[str, str]]:
    return list_fingerprints(_made_for(gang, address_list, reads, world))


@lru_cache(maxsize=16)
def topology_json(gang: Gang, address_list: AddressList) -> str:
    """Return the content of /run/dijob/topology.json: the current world, for programs that handle a
    change of size without a restart. The launcher creates the same file from the list (the
    launcher's peers/topology.go).

    The index in nodeIps and firstNodeIds is the rank. A rank has parallelWorkers consecutive node
    ids. The format is compact, because each of up to 1,500 pods carries it, and Kubernetes limits
    the annotations of an object to 256 KiB in total. The result is cached, because it is the same
    for all pods.
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
    """Return the patch for a pod whose program may restart after a failure."""
    annotations = {names.ANNOTATION_ENDS: str(action.ends)}
    return {"metadata": {"uid": action.uid, "annotations": annotations}}


def end_patch(uid: str) -> dict[str, Any]:
    """Return the patch that terminates a pod but keeps its logs."""
    return {
        "metadata": {"uid": uid, "annotations": {names.ANNOTATION_ENDED: ENDED}},
        "spec": {"activeDeadlineSeconds": END_SECONDS},
    }
