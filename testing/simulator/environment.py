"""The environment of a rank's program: as the kubelet resolves it, and as the launcher changes it.

The launcher's rules are in its run/variables.go. tests/pod/test_world.py verifies that the real
launcher does the same.
"""

import ipaddress
from collections.abc import Mapping

from dijob import names, pod
from dijob.core.observed.made import main_name

from simulator.objects import Body


def environment_of(body: Body, ip: str = "") -> dict[str, str]:
    """The variables of the main container's program, resolved with the pod's current
    annotations.
    """
    annotations = body["metadata"].get("annotations") or {}
    name = main_name(body["spec"])
    main = next(each for each in body["spec"]["containers"] if each["name"] == name)
    found = {entry["name"]: _value(entry, annotations, ip) for entry in main.get("env") or ()}
    if (main.get("command") or [""])[0] == pod.LAUNCH:
        found |= _listed(found, annotations)
    return found


def _value(entry: Body, annotations: Mapping[str, str], ip: str) -> str:
    path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    if path == "status.podIP":
        return ip
    return annotations.get(path.split("'")[1], "") if "'" in path else str(entry["value"])


def _listed(env: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """The variables that the launcher sets; none if the pod has no list."""
    number = annotations.get(names.ANNOTATION_LIST_NUMBER, "")
    text = annotations.get(names.ANNOTATION_IPS, "")
    if not text:
        return {}
    nodes = text.split(",")
    found = {
        "DI_NODES": text,
        "DI_LIST_NUMBER": number,
        "DI_NUM_NODES": str(len(nodes)),
        "DI_WORLD_SIZE": str(len(nodes) * int(env["DI_PARALLEL_WORKERS"])),
    }
    if not any(map(_is_name, nodes)):
        found["DI_NODE_IPS"] = text
    words = env.get("DIJOB_TASKS", "").split()
    sizes = [int(size) for size in words[1::2]]
    for i, word in enumerate(words[::2]):
        first = sum(sizes[:i])
        part = nodes[first : first + sizes[i]] if i + 1 < len(sizes) else nodes[first:]
        found |= {} if word == "_" else {f"DI_{word}_NODES": ",".join(part)}
    for said in env.get("DIJOB_LISTED", "").split():
        name, key = said.split("=")
        own = {"num-nodes": found["DI_NUM_NODES"], "world-size": found["DI_WORLD_SIZE"]}
        found[name] = own.get(key) or annotations[f"{names.GROUP}/{key}"]
    return found


def _is_name(node: str) -> bool:
    try:
        ipaddress.ip_address(node)
    except ValueError:
        return True
    return False
