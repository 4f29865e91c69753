"""Judges whether the nodes have the images of a job. No I/O.

The command does not contact a registry, because the user's network and credentials differ from
those of the nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dijob.cli.explain.fit import NO, UNKNOWN, YES, FitFinding, NodeRoom
from dijob.core.members import format_count
from dijob.core.render.fields import objects_in

Body = Mapping[str, Any]

ALWAYS, NEVER, IF_NOT_PRESENT = "Always", "Never", "IfNotPresent"
# A kubelet reports at most this number of images (nodeStatusMaxImages), the largest first.
_REPORTED: Final = 50


@dataclass(frozen=True)
class ImageUse:
    """An image of a template, and when the kubelet pulls it."""

    image: str
    policy: str


def images_of(template: Body) -> list[ImageUse]:
    """Return the images of the user's containers, but not of containers that the operator adds."""
    found = list[ImageUse]()
    for key in ("initContainers", "containers"):
        for container in objects_in(template.get(key)):
            image = container.get("image")
            if isinstance(image, str) and image:
                default = ALWAYS if full_name(image).endswith(":latest") else IF_NOT_PRESENT
                found.append(ImageUse(image, str(container.get("imagePullPolicy") or default)))
    return list(dict.fromkeys(found))


def full_name(image: str) -> str:
    """Return the name by which a container runtime lists an image, with registry and tag."""
    host, slash, _ = image.partition("/")
    registry = bool(slash) and ("." in host or ":" in host or host == "localhost")
    name = image if registry else f"docker.io/{'' if slash else 'library/'}{image}"
    path, at, digest = name.partition("@")
    folder, _, last = path.rpartition("/")
    base, colon, tag = last.partition(":")
    # If an image is named by digest, a runtime lists it without its tag.
    return f"{folder}/{base}@{digest}" if at else f"{folder}/{base}:{tag if colon else 'latest'}"


def into_images(
    uses: Iterable[tuple[Body, ImageUse]], nodes: Sequence[NodeRoom]
) -> list[FitFinding]:
    """Return a finding for each image. Each of `uses` is a pod's spec and one of its images."""
    found = []
    for spec, use in uses:
        # Labels and taints keep a pod off a node for as long as the node exists.
        places = [node for node in nodes if not node.excludes(spec)]
        # If no node is left, the finding about room on the nodes gives the reason.
        if places:
            found.append(_judge(use, places))
    # Tasks often have the same image.
    return list(dict.fromkeys(found))


def _judge(use: ImageUse, places: Sequence[NodeRoom]) -> FitFinding:
    name = full_name(use.image)
    having = sum(name in node.images for node in places)
    nodes = format_count(len(places), "node")
    if use.policy == NEVER:
        return _judge_without_pull(use, having, places)
    if not having:
        text = f"no node has {use.image} yet; explain does not check whether the registry serves it"
        return FitFinding(UNKNOWN, text)
    text = f"{having} of {nodes} that can run the pods have {use.image}"
    if use.policy == ALWAYS:
        why = (
            f"imagePullPolicy {ALWAYS} needs the registry each time, but the registry was not"
            " checked"
        )
        return FitFinding(UNKNOWN, f"{text}; {why}")
    if having < len(places):
        why = "explain does not check whether the registry serves it to the other nodes"
        return FitFinding(UNKNOWN, f"{text}; {why}")
    return FitFinding(YES, text)


def _judge_without_pull(use: ImageUse, having: int, places: Sequence[NodeRoom]) -> FitFinding:
    nodes = format_count(len(places), "node")
    held = f"{having} of {nodes} that can run the pods have {use.image}"
    text = f"{held}, and imagePullPolicy is {NEVER}"
    if having == len(places):
        return FitFinding(YES, text)
    if any(len(node.images) >= _REPORTED for node in places):
        return FitFinding(UNKNOWN, f"{text}; a node lists only its {_REPORTED} largest images")
    return FitFinding(UNKNOWN if having else NO, text)
