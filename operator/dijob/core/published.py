"""What an address list writes on a pod, and what becomes of it there: variables and files."""

import json
from functools import lru_cache
from typing import Any, Final

from dijob import names, pod
from dijob.core.actions import PublishAddresses
from dijob.core.members import Gang
from dijob.core.observe import addresses
from dijob.names import Addressing

Manifest = dict[str, Any]

# What an address list decides: the variables (resolved at each start of the container) and the files (kept up to date).
VARIABLES: Final = {
    "DI_NODES": names.ANNOTATION_IPS,
    "DI_NODE_IPS": names.ANNOTATION_IPS,
    "DI_EPOCH": names.ANNOTATION_EPOCH,
    "DI_NUM_NODES": names.ANNOTATION_NUM_NODES,
    "DI_WORLD_SIZE": names.ANNOTATION_WORLD_SIZE,
}
FILES: Final = {
    pod.IPS_FILE: names.ANNOTATION_IPS,
    pod.EPOCH_FILE: names.ANNOTATION_EPOCH,
    pod.TOPOLOGY_FILE: names.ANNOTATION_TOPOLOGY,
    pod.RENEW_FILE: names.ANNOTATION_RENEW,
}


def variables(gang: Gang) -> list[tuple[str, str]]:
    """The variables of the main container, each with its annotation."""
    return [(k, v) for k, v in VARIABLES.items() if k != "DI_NODE_IPS" or gang.addressing is Addressing.IP]


def addresses_patch(gang: Gang, list_: PublishAddresses) -> Manifest:
    """The merge patch that opens a pod's gate: the address list, its number, and what follows from it.

    managedFields are emptied on the way ([{}] clears them, as Kubernetes documents): it makes this and every later
    write of the pod cheaper for the apiserver (design section 8: 0.76 of the time).
    """
    size = len(addresses(list_.ips))
    annotations = {
        names.ANNOTATION_IPS: list_.ips,
        names.ANNOTATION_EPOCH: str(list_.epoch),
        names.ANNOTATION_NUM_NODES: str(size),
        names.ANNOTATION_WORLD_SIZE: str(size * gang.workers),
        names.ANNOTATION_TOPOLOGY: topology_json(gang, list_.epoch, list_.ips),
        **({names.ANNOTATION_POD_IP: list_.ip} if list_.ip else {}),
        **({names.ANNOTATION_RENEW: str(list_.epoch)} if list_.renew else {}),
    }
    labels = {names.LABEL_JOB: gang.job, names.LABEL_RANK: list_.name.rpartition("-")[2]}
    return {"metadata": {"uid": list_.uid, "managedFields": [{}], "labels": labels, "annotations": annotations}}


@lru_cache(maxsize=16)
def topology_json(gang: Gang, epoch: int, listed: str) -> str:
    """/run/dijob/topology.json: the world as it is now, for programs that live through growth and shrinkage.

    Index = rank in nodeIps and firstNodeIds; a rank has parallelWorkers node ids from its first one on. Short, because
    each of up to 1,500 pods carries it, and Kubernetes bounds all annotations of an object at 256 KiB in sum.
    Remembered, because it is the same for each of them.
    """
    ips = addresses(listed)
    world = {
        "epoch": epoch,
        "worldSize": len(ips) * gang.workers,
        "numNodes": len(ips),
        "parallelWorkers": gang.workers,
        "topology": gang.topology.value,
        "nodeIps" if gang.addressing is Addressing.IP else "nodeNames": ips,
        "firstNodeIds": [gang.member(rank).node_ids(gang.workers)[0] for rank in range(len(ips))],
    }
    return json.dumps(world, separators=(",", ":"))
