"""Adds the gate and the launcher (images/launcher) to a rank's pod: their containers, volumes and
mounts.

The gate is an init container that runs from the main container's image. So the pod is ready for a
peer list only when its node has that image, and no program starts before all programs can start. A
pod with a channel has no gate (gate.py).
"""

from collections.abc import Mapping
from typing import Any

from dijob import names, pod
from dijob.core.members import Gang, GangMember
from dijob.core.options import Delivery, Options
from dijob.core.render.fields import Manifest, as_mapping, field_variable
from dijob.names import Addressing

# When the gate has the peer list, the kubelet may still start the main container from an older
# version of the pod. That version lacks the list. If the kubelet sets variables of the main
# container from the pod's annotations, the gate waits this long, so that the kubelet can receive
# the newer version.
SETTLE_SECONDS = "3"


def launcher_containers(
    main: Manifest,
    gang: Gang,
    member: GangMember,
    options: Options,
    waits: Mapping[str, str] | None,
) -> list[Manifest]:
    """Return the init containers that follow the template's own.

    The first one installs the programs; it is left out if the kubelet mounts their image. The last
    one is the gate. `waits` are variables of the gate; None if the pod has no gate.
    """
    installs = options.launcher_delivery is not Delivery.IMAGE_VOLUME
    ours = [_installer_container(main, options)] if installs else []
    if waits is not None:
        gate = _gate_container(main, gang, member, options)
        gate["env"] += [{"name": name, "value": value} for name, value in waits.items()]
        ours.append(gate)
    return ours


def launcher_mounts(options: Options) -> list[Manifest]:
    """Return the mounts of the programs and the pod's files, for the gate and the main
    container.
    """
    programs = {"name": names.LAUNCHER_VOLUME, "mountPath": pod.BIN_DIR}
    return [
        _bin_mount(),
        *([programs] if options.launcher_delivery is Delivery.IMAGE_VOLUME else []),
        {"name": names.POD_VOLUME, "mountPath": pod.POD_DIR, "readOnly": True},
    ]


def launcher_volumes(launched: bool, options: Options) -> list[Manifest]:
    """Return the volumes of the mounts. The pod's annotations are provided as one file, from which
    the launcher derives everything else. Without a launcher (not `launched`), the kubelet provides
    topology.json.
    """
    items = [_pod_file(pod.ANNOTATIONS_FILE, "metadata.annotations")]
    if not launched:
        path = f"metadata.annotations['{names.ANNOTATION_TOPOLOGY}']"
        items.append(_pod_file(pod.TOPOLOGY_FILE, path))
    image = {"name": names.LAUNCHER_VOLUME, "image": {"reference": options.launcher_image}}
    return [
        {"name": names.BIN_VOLUME, "emptyDir": {}},
        *([image] if options.launcher_delivery is Delivery.IMAGE_VOLUME else []),
        {"name": names.POD_VOLUME, "downwardAPI": {"items": items}},
    ]


def _installer_container(main: Manifest, options: Options) -> Manifest:
    return {
        "name": names.LAUNCHER_CONTAINER,
        "image": options.launcher_image,
        "command": [pod.INSTALL],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [_bin_mount()],
        **_copied_settings(main),
    }


def _gate_container(main: Manifest, gang: Gang, member: GangMember, options: Options) -> Manifest:
    """Return the last init container. It runs from the main container's image. So once it is
    running, that image is on the node.
    """
    gate: Manifest = {
        "name": names.GATE_CONTAINER,
        "image": main.get("image"),
        "command": [pod.GATE],
        "env": [
            field_variable("DI_POD_IP", "status.podIP"),
            {"name": "DI_RANK", "value": str(member.rank)},
            {"name": "DI_JOB_NAME", "value": gang.job},
            {"name": "DI_JOB_NAMESPACE", "value": gang.namespace},
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": launcher_mounts(options),
        **_copied_settings(main),
    }
    if "imagePullPolicy" in main:
        gate["imagePullPolicy"] = main["imagePullPolicy"]
    if gang.addressing is Addressing.HOSTNAME:
        # The gate waits until it can resolve the names of all ranks to which this rank connects.
        gate["env"].append({"name": "DI_TOPOLOGY", "value": gang.topology.value})
    return gate


def _copied_settings(main: Manifest) -> Manifest:
    """Return the main container's security context, and its resources except GPUs and claims. With
    these, any quota or policy that accepts the main container also accepts the added container, and
    the pod's effective request does not grow.
    """
    found = {"securityContext": main["securityContext"]} if "securityContext" in main else {}
    resources = _plain_resources(main.get("resources"))
    return {**found, "resources": resources} if resources else found


def _plain_resources(resources: Any) -> Manifest:
    plain = ("cpu", "memory", "ephemeral-storage")
    kept = {
        kind: {k: v for k, v in as_mapping(as_mapping(resources).get(kind)).items() if k in plain}
        for kind in ("requests", "limits")
    }
    return {kind: values for kind, values in kept.items() if values}


def _bin_mount() -> Manifest:
    return {"name": names.BIN_VOLUME, "mountPath": pod.DIR}


def _pod_file(path: str, field: str) -> Manifest:
    return {"path": path, "fieldRef": {"fieldPath": field}}
