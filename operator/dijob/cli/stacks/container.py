"""The ephemeral container that looks, and why it cannot, in sentences. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob import __version__
from dijob.client import RankPod
from dijob.client.errors import ApiError

Body = dict[str, Any]

NAME: Final = "dijob-stacks"
# Of the same version: what it says is read here.
IMAGE: Final = f"dijob/stacks:{__version__}"
_NO_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_NOT_MADE: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


@dataclass(frozen=True)
class Wanted:
    """What is to be added to each pod: the image, and the container's name, which no other
    container of the pod has ever had."""

    image: str
    name: str


def patch(pod: RankPod, wanted: Wanted, uid: str) -> Body:
    """What adds it to a pod. It shares the processes of the main container.

    Root, and SYS_PTRACE, as the kernel wants it from who reads another's memory; DAC_READ_SEARCH,
    as the interpreter may be in a folder of its user's alone.
    """
    security = {
        "runAsUser": 0,
        "runAsNonRoot": False,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]},
    }
    container = {
        "name": wanted.name,
        "image": wanted.image,
        "imagePullPolicy": "IfNotPresent",
        "targetContainerName": pod.container,
        "securityContext": security,
    }
    spec = pod.body.get("spec") or {}
    if spec.get("hostPID") or spec.get("shareProcessNamespace"):
        # It sees the processes of others too.
        container["args"] = [f"DI_JOB_ID={uid}", f"DI_RANK={pod.rank}"]
    return {"spec": {"ephemeralContainers": [container]}}


def state(pod: RankPod, name: str) -> Mapping[str, Any]:
    """The container's state in the pod's status; {} before it has one."""
    rows = (pod.body.get("status") or {}).get("ephemeralContainerStatuses") or ()
    found = next((one.get("state") for one in rows if one.get("name") == name), None)
    return found or {}


def stuck(pod: RankPod, wanted: Wanted) -> str:
    """Why it will not run, in a sentence; "" while it may."""
    waiting = state(pod, wanted.name).get("waiting") or {}
    reason, said = str(waiting.get("reason", "")), " ".join(str(waiting.get("message", "")).split())
    if reason in _NO_IMAGE:
        return (
            f"node {pod.node} cannot get the image {wanted.image} ({reason}): push it where your"
            f" nodes pull from (images/README.md), and name it with --stacks-image"
        )
    return f"it cannot be started ({reason}): {said[:300]}" if reason in _NOT_MADE else ""


def refusal(error: ApiError, namespace: str) -> str:
    """Why the apiserver has refused it, and what to do."""
    if "violates PodSecurity" in error.message:
        return (
            f"namespace {namespace} allows no container with SYS_PTRACE, which reading another"
            " process takes (Pod Security): have it labelled"
            " pod-security.kubernetes.io/enforce=privileged meanwhile"
        )
    if error.status == 403 and "ephemeralcontainers" in error.message:
        return (
            f"you may not add a container to pods in {namespace}: ask for the verb patch on"
            " pods/ephemeralcontainers"
        )
    return " ".join(error.message.split())[:300]
