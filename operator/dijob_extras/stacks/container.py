"""Renders the ephemeral container and, if it cannot run, explains why. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob import __version__
from dijob.client import RankPod
from dijob.client.errors import ApiError

Body = dict[str, Any]

NAME: Final = "dijob-stacks"
# The image has the same version as this program, because this program parses the image's output.
IMAGE: Final = f"dijob/stacks:{__version__}"
_NO_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_NOT_MADE: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


@dataclass(frozen=True)
class StackContainer:
    """The image and the name of the container to add to each pod.

    The name must be new, because an ephemeral container can neither be removed nor restarted.
    """

    image: str
    name: str


def build_patch(pod: RankPod, wanted: StackContainer, uid: str) -> Body:
    """Return the patch that adds the container to a pod. The added container shares the process
    namespace of the main container.
    """
    # The kernel requires root and SYS_PTRACE to read the memory of another process. With
    # DAC_READ_SEARCH, py-spy can read an interpreter in a private folder of another user.
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
        # The container also sees processes of other containers or pods. These variables select the
        # rank's own processes.
        container["args"] = [f"DI_JOB_ID={uid}", f"DI_RANK={pod.rank}"]
    return {"spec": {"ephemeralContainers": [container]}}


def container_state(pod: RankPod, name: str) -> Mapping[str, Any]:
    """Return the container's state in the pod's status; {} if there is none yet."""
    rows = (pod.body.get("status") or {}).get("ephemeralContainerStatuses") or ()
    found = next((one.get("state") for one in rows if one.get("name") == name), None)
    return found or {}


def explain_stuck(pod: RankPod, wanted: StackContainer) -> str:
    """Return the reason why the container will never run, or ""."""
    waiting = container_state(pod, wanted.name).get("waiting") or {}
    reason, why = str(waiting.get("reason", "")), " ".join(str(waiting.get("message", "")).split())
    if reason in _NO_IMAGE:
        return (
            f"node {pod.node} cannot pull the image {wanted.image} ({reason}): push it to a"
            " registry that your nodes can pull from (images/README.md), and name it with"
            " --stacks-image"
        )
    return f"the container cannot be started ({reason}): {why[:300]}" if reason in _NOT_MADE else ""


def explain_rejection(error: ApiError, namespace: str) -> str:
    """Explain why the apiserver rejected the container, and what to do."""
    # Two rejections are common, and their messages do not say what to do.
    if "violates PodSecurity" in error.message:
        return (
            f"Pod Security in namespace {namespace} forbids containers with SYS_PTRACE, which is"
            " needed to read another process: ask an administrator to temporarily label the"
            " namespace pod-security.kubernetes.io/enforce=privileged"
        )
    if error.status == 403 and "ephemeralcontainers" in error.message:
        return (
            f"you are not allowed to add containers to pods in {namespace}: ask for permission to"
            " patch pods/ephemeralcontainers"
        )
    return " ".join(error.message.split())[:300]
