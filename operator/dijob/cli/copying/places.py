"""Parses paths in jobs, finds the volume of a path, and renders the helper pod. No I/O."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.numbers import parse_natural
from dijob.cli.errors import CliError, Exit

Body = dict[str, Any]

# If the command is killed, nothing deletes the helper pod. In this case, the pod terminates after
# this time.
HELPER_SECONDS: Final = 3600
HELPER_CONTAINER: Final = "cp"
# Volumes that are deleted with the pod, or that a program does not write to.
_POD_VOLUMES: Final = ("emptyDir", "ephemeral", "configMap", "secret", "downwardAPI", "projected")
# The fields of the template that a pod needs to be scheduled, to pull its image and to read the
# volume as the rank's user.
_COPIED_FIELDS: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "imagePullSecrets",
    "securityContext",
    "schedulerName",
    "runtimeClassName",
)


@dataclass(frozen=True)
class RankPath:
    """A path in the container of a rank."""

    job: str
    rank: int
    path: str

    @staticmethod
    def of(text: str) -> "RankPath":
        """Parse NAME:[RANK:]PATH. Raises CliError (USAGE)."""
        found = re.fullmatch(r"([^:/]+):(?:(\d+):)?(.+)", text)
        if not found:
            raise CliError(
                f"{text} is not a path in a job: write it as NAME:[RANK:]PATH", Exit.USAGE
            )
        rank = parse_natural(found[2] or "0")
        if rank is None or rank >= names.MAX_REPLICAS:
            last = names.MAX_REPLICAS - 1
            raise CliError(f"{found[2][:20]} is not a rank: the highest rank is {last}", Exit.USAGE)
        return RankPath(found[1], rank, found[3])


def parse_ends(first: str, second: str) -> tuple[str | RankPath, str | RankPath]:
    """Parse both ends of a copy. Exactly one of them must be a path in a job. Raises CliError."""
    # As with scp, an argument with a slash before the colon is a local path.
    in_a_job = re.compile(r"[^:/]+:")
    found = [RankPath.of(text) if in_a_job.match(text) else text for text in (first, second)]
    if sum(isinstance(end, RankPath) for end in found) != 1:
        raise CliError(
            f"exactly one of {first} and {second} must be a path in a job, written"
            " NAME:[RANK:]PATH (write ./a:b for a local file with a colon)",
            Exit.USAGE,
        )
    return found[0], found[1]


@dataclass(frozen=True)
class Inside:
    """A target in a container: the folder in which tar starts, and the path below it."""

    root: str
    path: str
    folder: bool
    """Whether the path is a folder. If so, the copy is placed in this folder, under its own name.
    """

    @staticmethod
    def of(text: str) -> "Inside":
        """Parse a path. A path that ends with / is a folder. Raises CliError (USAGE) for `..`."""
        # tar refuses to extract names with `..`.
        if ".." in text.split("/"):
            raise CliError(f"{text} contains `..`: write the path without it", Exit.USAGE)
        path = posixpath.normpath(text).lstrip("/")
        path = "" if path == "." else path
        return Inside("/" if text.startswith("/") else ".", path, text.endswith("/") or not path)

    def named(self, member: str) -> str:
        """Return the name of a file or folder in the stream. `member` is its path, which begins
        with the local name of the copied file or folder.
        """
        _, _, rest = member.partition("/")
        return posixpath.join(self.path, member if self.folder else rest).rstrip("/")

    def shown(self, name: str) -> str:
        """Return a name in the stream as a path to show to users."""
        return posixpath.join("/" if self.root == "/" else "", name) or "."

    @property
    def whole(self) -> str:
        """The path as users write it. It is absolute if the user wrote an absolute path."""
        return self.shown(self.path)


@dataclass(frozen=True)
class Mounted:
    """A volume of the job, and the mount that contains the path."""

    mount: Mapping[str, Any]
    volume: Mapping[str, Any]
    node: str = ""
    """The node that has the hostPath; "" if the volume can be mounted on any node."""


def absolute_path(job: DIJob, source: RankPath) -> str:
    """Return the absolute path. A relative path starts at the container's working directory."""
    folder = job.pod_set_of(source.rank).main_container.get("workingDir") or "/"
    return posixpath.normpath(posixpath.join(str(folder), source.path))


def find_volume(job: DIJob, source: RankPath, node: str = "") -> Mounted:
    """Return the volume that still contains the path after the rank's pod has terminated.

    `node` is the node on which the pod ran, if it is known. Raises CliError (NOT_FOUND) if no
    volume that outlives the pod contains the path.
    """
    pods, path = job.pod_set_of(source.rank), absolute_path(job, source)
    mounts = [
        mount
        for mount in pods.main_container.get("volumeMounts") or ()
        if (path + "/").startswith(str(mount.get("mountPath", "")).rstrip("/") + "/")
    ]
    where = f"rank {source.rank} of job {source.job} is not running, and {path}"
    keep = "to keep files, write them to a PersistentVolumeClaim (docs/training.md)"
    if not mounts:
        raise CliError(f"{where} is not on a volume of its template: {keep}", Exit.NOT_FOUND)
    # If one mount is inside another, the inner one, whose path is longer, contains the file.
    mount = max(mounts, key=lambda one: len(str(one["mountPath"])))
    volumes = pods.pod.get("volumes") or ()
    volume: Mapping[str, Any] = next((v for v in volumes if v.get("name") == mount.get("name")), {})
    if not volume or set(_POD_VOLUMES) & volume.keys():
        kind = next(iter(set(_POD_VOLUMES) & volume.keys()), "unknown")
        raise CliError(
            f"{where} is on the volume {mount.get('name')} ({kind}), which is deleted with the"
            f" pod: {keep}",
            Exit.NOT_FOUND,
        )
    if mount.get("subPathExpr"):
        raise CliError(
            f"{where} is mounted with subPathExpr, which only the rank's own pod can resolve: mount"
            " the volume in a pod of your own",
            Exit.NOT_FOUND,
        )
    # A hostPath volume exists only on the node on which the rank ran. For any other volume, the
    # scheduler finds a node.
    if "hostPath" not in volume:
        return Mounted(mount, volume)
    if not node:
        raise CliError(
            f"{where} is on the node on which the rank ran. The pod is gone, so the command cannot"
            " tell which node that was: copy the path directly from that node",
            Exit.NOT_FOUND,
        )
    return Mounted(mount, volume, node)


def helper_manifest(
    job: DIJob, source: RankPath, found: Mounted, name: str, *, writes: bool = False
) -> Body:
    """Render a pod that mounts the volume and sleeps. The mount is read-only unless `writes` is
    true.

    The pod does not have the job's labels, so the operator does not mistake it for a rank. The job
    owns the pod, so if the command fails to delete the pod, the pod is deleted with the job.
    """
    pods = job.pod_set_of(source.rank)
    container = {
        "name": HELPER_CONTAINER,
        "image": pods.main_container.get("image"),
        "command": ["sleep", str(HELPER_SECONDS)],
        "volumeMounts": [dict(found.mount) if writes else {**found.mount, "readOnly": True}],
        # The pod does not request the rank's resources, because the copy must not wait for a GPU.
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    for key in ("imagePullPolicy", "securityContext"):
        if key in pods.main_container:
            container[key] = pods.main_container[key]
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
    }
    meta = {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [owner]}
    spec: Body = {
        **{key: pods.pod[key] for key in _COPIED_FIELDS if key in pods.pod},
        "containers": [container],
        "volumes": [dict(found.volume)],
        **({"nodeName": found.node} if found.node else {}),
        "restartPolicy": "Never",
        "activeDeadlineSeconds": HELPER_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
