"""Which pod has a path, a rank's own or a helper with the job's volume, and where in it. Pure."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.numbers import natural
from dijob.cli.errors import CliError, Exit

Body = dict[str, Any]

# A helper that was not deleted ends by itself.
HELPER_SECONDS: Final = 3600
HELPER_CONTAINER: Final = "cp"
# Volumes that are gone with the pod, or whose content is no file of the program's.
_OF_THE_POD: Final = ("emptyDir", "ephemeral", "configMap", "secret", "downwardAPI", "projected")
# What a pod needs to find a node, its image and its volume.
_KEPT: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "imagePullSecrets",
    "securityContext",
    "schedulerName",
    "runtimeClassName",
)


@dataclass(frozen=True)
class Source:
    """A path in a rank of a job."""

    job: str
    rank: int
    path: str

    @staticmethod
    def of(text: str) -> "Source":
        """NAME:[RANK:]PATH. Raises CliError."""
        found = re.fullmatch(r"([^:/]+):(?:(\d+):)?(.+)", text)
        if not found:
            raise CliError(f"{text} is no source: write it as NAME:[RANK:]PATH", Exit.USAGE)
        rank = natural(found[2] or "0")
        if rank is None or rank >= names.MAX_REPLICAS:
            last = names.MAX_REPLICAS - 1
            raise CliError(f"{found[2][:20]} is no rank: the last one is {last}", Exit.USAGE)
        return Source(found[1], rank, found[3])


def ends(first: str, second: str) -> tuple[str | Source, str | Source]:
    """Both ends of a copy: which of them is in a job, and which is here. Raises CliError."""
    # As with scp: what has a slash before its colon is a path of this machine.
    in_a_job = re.compile(r"[^:/]+:")
    found = [Source.of(text) if in_a_job.match(text) else text for text in (first, second)]
    if sum(isinstance(end, Source) for end in found) != 1:
        raise CliError(
            f"one of {first} and {second} must be in a job, as NAME:[RANK:]PATH, and the other one"
            " here (./a:b for a name with a colon)",
            Exit.USAGE,
        )
    return found[0], found[1]


@dataclass(frozen=True)
class Inside:
    """Where something is written in a container: tar's folder, and the path below it."""

    root: str
    path: str
    folder: bool
    """Whether it goes into that, under its own name."""

    @staticmethod
    def of(text: str) -> "Inside":
        """A path; one that ends with / is a folder. Raises CliError (USAGE) for one with .., as tar
        does not follow these.
        """
        if ".." in text.split("/"):
            raise CliError(f"{text}: write it without ..", Exit.USAGE)
        path = posixpath.normpath(text).lstrip("/")
        path = "" if path == "." else path
        return Inside("/" if text.startswith("/") else ".", path, text.endswith("/") or not path)

    def named(self, member: str) -> str:
        """The name in the stream of a member, whose first part is the name that it has here."""
        _, _, rest = member.partition("/")
        return posixpath.join(self.path, member if self.folder else rest).rstrip("/")

    def shown(self, name: str) -> str:
        """A name in the stream as people write it."""
        return posixpath.join("/" if self.root == "/" else "", name) or "."

    @property
    def whole(self) -> str:
        """The path as people write it."""
        return self.shown(self.path)


@dataclass(frozen=True)
class Mounted:
    """A volume of the job, and the mount of it that has the path."""

    mount: Mapping[str, Any]
    volume: Mapping[str, Any]
    node: str = ""
    """The node that has it, where it is a folder of a node; else any."""


def absolute(job: DIJob, source: Source) -> str:
    """The path from the root; as the container sees it where it is relative."""
    folder = job.pod_set_of(source.rank).main_container.get("workingDir") or "/"
    return posixpath.normpath(posixpath.join(str(folder), source.path))


def mounted(job: DIJob, source: Source, node: str = "") -> Mounted:
    """The volume that has the path when the rank's pod has ended; `node` is the one that it ran on,
    where that is known. Raises CliError where none has it.
    """
    pods, path = job.pod_set_of(source.rank), absolute(job, source)
    mounts = [
        mount
        for mount in pods.main_container.get("volumeMounts") or ()
        if (path + "/").startswith(str(mount.get("mountPath", "")).rstrip("/") + "/")
    ]
    where = f"rank {source.rank} of {source.job} does not run, and {path}"
    keep = "write what is to stay to a PersistentVolumeClaim (docs/training.md)"
    if not mounts:
        raise CliError(f"{where} is on no volume of its template: {keep}", Exit.NOT_FOUND)
    mount = max(mounts, key=lambda one: len(str(one["mountPath"])))
    volumes = pods.pod.get("volumes") or ()
    volume: Mapping[str, Any] = next((v for v in volumes if v.get("name") == mount.get("name")), {})
    if not volume or set(_OF_THE_POD) & volume.keys():
        kind = next(iter(set(_OF_THE_POD) & volume.keys()), "unknown")
        raise CliError(
            f"{where} is on the volume {mount.get('name')} ({kind}), which ends with the pod:"
            f" {keep}",
            Exit.NOT_FOUND,
        )
    if mount.get("subPathExpr"):
        raise CliError(
            f"{where} is mounted by subPathExpr, which only the rank's own pod can follow: mount"
            " the volume in a pod of your own",
            Exit.NOT_FOUND,
        )
    if "hostPath" not in volume:
        return Mounted(mount, volume)
    if not node:
        raise CliError(
            f"{where} is a folder of the node that it ran on, and no pod says any more which that"
            " was: copy it from the node",
            Exit.NOT_FOUND,
        )
    return Mounted(mount, volume, node)


def helper(job: DIJob, source: Source, found: Mounted, name: str, *, writes: bool = False) -> Body:
    """A pod that has the volume, read-only unless it `writes`, and does nothing. It is no rank of
    the job, and is deleted with it at the latest.
    """
    pods = job.pod_set_of(source.rank)
    container = {
        "name": HELPER_CONTAINER,
        "image": pods.main_container.get("image"),
        "command": ["sleep", str(HELPER_SECONDS)],
        "volumeMounts": [dict(found.mount) if writes else {**found.mount, "readOnly": True}],
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
        **{key: pods.pod[key] for key in _KEPT if key in pods.pod},
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
