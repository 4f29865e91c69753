"""Detects that a node cannot mount the launcher's image in a pod (launcher.delivery: ImageVolume).

The API server's version does not show this: a node may have an older kubelet, or a container
runtime without image volumes. Such a pod never starts, and its node reports an error with one of
these causes:
- The runtime does not know the field for the image, so it tries to mount a folder without a name.
  containerd before 2.1, CRI-O before 1.31 and cri-dockerd report this with different errors.
- The runtime fails to mount the image. containerd and CRI-O then report ImageVolumeMountFailed.
- The volume is missing or empty in the container, so the launcher or the gate is not found. A
  control plane with the feature gate ImageVolume=false removes such volumes from new pods.
- The runtime mounts the image with the option noexec, as KEP-4639 allows, so the launcher cannot
  be executed. containerd 2.4 and CRI-O 1.35 do not do this.
- The kubelet has no plugin for the volume (1.30, and 1.31 to 1.34 with the default feature gates).
  Only an event shows this.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dijob import names
from dijob.api.printed import one_line
from dijob.pod import BIN_DIR, GATE, LAUNCH

Body = Mapping[str, Any]

_NOT_MOUNTED = re.compile(
    r'ImageVolumeMountFailed|failed to (?:mkdir|stat) ""|mount\.HostPath is empty'
    rf"|invalid volume specification: [\"']?:{re.escape(BIN_DIR)}\b"
)
_NOT_FOUND = re.compile(
    rf"(?:{re.escape(LAUNCH)}|{re.escape(GATE)})\b"
    r".*(?:no such file or directory|permission denied)",
    re.DOTALL,
)
_NO_PLUGIN = re.compile(rf'volume "{names.LAUNCHER_VOLUME}" err=no volume plugin matched')
# The kubelet's reasons for a container that cannot be created, and for one that cannot be started.
_CREATION = "CreateContainerError"
_START = ("RunContainerError", "StartError", "ContainerCannotRun")


def image_volumes(spec: Body) -> tuple[tuple[str, str], ...]:
    """Return an (image, name) pair for each image volume."""
    found = ((one.get("image"), one.get("name")) for one in spec.get("volumes") or ())
    return tuple(
        (str(image.get("reference") or ""), str(name)) for image, name in found if image is not None
    )


def mount_failure(spec: Body, status: Body, main: str) -> str:
    """Return the error of a pod whose node cannot mount the launcher's image; "" if there is none.
    `main` is the name of the main container.

    If the template has its own image volumes, the result is "": delivering the launcher in a
    different way would not help such a pod.
    """
    errors = (
        one_line(message)
        for reason, message in _errors(status, (names.GATE_CONTAINER, main))
        if (_NOT_MOUNTED if reason == _CREATION else _NOT_FOUND).search(message)
    )
    found = next(errors, "")
    return found if found and _needs_mount(spec) else ""


def mount_warning(warning: str) -> str:
    """Return the text of a warning event if it says that the kubelet cannot mount the launcher's
    image; else "".
    """
    return warning if _NO_PLUGIN.search(warning) else ""


def _errors(status: Body, containers: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the reasons and messages of the containers that could not be created or started."""
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            if container.get("name") not in containers:
                continue
            state, last = container.get("state") or {}, container.get("lastState") or {}
            for one in (state.get("waiting"), state.get("terminated"), last.get("terminated")):
                reason = str((one or {}).get("reason") or "")
                if one and reason in (_CREATION, *_START):
                    yield reason, str(one.get("message") or "")


def _needs_mount(spec: Body) -> bool:
    """Whether the launcher's image is the only image that must be mounted in this pod."""
    before = spec.get("initContainers") or ()
    installs = any(one.get("name") == names.LAUNCHER_CONTAINER for one in before)
    return not installs and all(name == names.LAUNCHER_VOLUME for _, name in image_volumes(spec))
