"""Builds the DIJob of `run` and the ConfigMaps with its code. No I/O."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields
from itertools import count
from typing import Any, Final, TypedDict, TypeVar

from dijob import names
from dijob.api.template_checks import OWN_VOLUMES
from dijob.client.code import CODE_VOLUME, WORK_VOLUME, Code
from dijob.client.errors import BadFile
from dijob.client.restarting import as_written

Body = dict[str, Any]
Method = TypeVar("Method", bound=Callable[..., Any])

# Matches the valid names of volumes. The names of claims can be longer, and can contain dots.
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class RunRequest:
    """The parameters of `run`. They are the same for the command line and the Python client."""

    name: str
    image: str
    command: Sequence[str]
    """The command of each pod. It runs without a shell."""
    replicas: int | None = None
    """Number of pods. Default: the maximum if given, else the minimum if given, else 1."""
    min_replicas: int | None = None
    max_replicas: int | None = None
    workers: int | None = None
    """Number of processes in each pod."""
    cpu: str | None = None
    memory: str | None = None
    gpus: int = 0
    topology: str | None = None
    mq: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[tuple[str, str]] = ()
    """Pairs: the name of a PersistentVolumeClaim, and the path at which it is mounted."""
    secrets: Sequence[tuple[str, str]] = ()
    """Pairs: the name of a Secret, and the path at which it is mounted. If the path is "", the
    Secret's keys become environment variables instead."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the DIJob, such as the name of a queue."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    service_account: str | None = None
    backoff_limit: int | None = None
    ttl: float | None = None
    """Seconds from the end of the job until it is deleted."""
    deadline: float | None = None
    """The job fails if it has not ended after this many seconds."""
    startup_deadline: float | None = None
    """The job fails if it is not running after this many seconds."""


class RunOptions(TypedDict, total=False):
    """The optional fields of RunRequest, as keyword arguments."""

    replicas: int | None
    min_replicas: int | None
    max_replicas: int | None
    workers: int | None
    cpu: str | None
    memory: str | None
    gpus: int
    topology: str | None
    mq: str | None
    env: Mapping[str, str]
    volumes: Sequence[tuple[str, str]]
    secrets: Sequence[tuple[str, str]]
    labels: Mapping[str, str]
    node_selector: Mapping[str, str]
    service_account: str | None
    backoff_limit: int | None
    ttl: float | None
    deadline: float | None
    startup_deadline: float | None


def show_options(method: Method) -> Method:
    """Show the fields of RunRequest in the signature of a method with `**options`, for help() and
    completion.
    """
    own = inspect.signature(method)
    listed = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    known = {one.name for one in listed}
    added = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default={} if one.default is MISSING else one.default,
            annotation=one.type,
        )
        for one in fields(RunRequest)
        if one.name not in known
    ]
    vars(method)["__signature__"] = own.replace(parameters=[*listed, *added])
    return method


def build_manifests(wanted: RunRequest, code: Code | None) -> list[Body]:
    """Return the DIJob, and the ConfigMaps with its code if it has any."""
    main: Body = {
        "name": names.MAIN_CONTAINER,
        "image": wanted.image,
        "command": list(wanted.command),
        # Without this variable, Python buffers its output, and the log stays empty for minutes.
        "env": [
            {"name": name, "value": value}
            for name, value in ({"PYTHONUNBUFFERED": "1"} | dict(wanted.env)).items()
        ],
    }
    if sources := [name for name, path in wanted.secrets if not path]:
        main["envFrom"] = [{"secretRef": {"name": name}} for name in sources]
    if resources := _build_resources(wanted):
        main["resources"] = resources
    pod: Body = {"containers": [main]}
    mounts, volumes = _build_volumes(wanted)
    if mounts:
        main["volumeMounts"] = mounts
        pod["volumes"] = volumes
    if wanted.node_selector:
        pod["nodeSelector"] = dict(wanted.node_selector)
    if wanted.service_account:
        pod["serviceAccountName"] = wanted.service_account
    if code is not None:
        code.put_into(pod, wanted.name)
    job = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": wanted.name}
        | ({"labels": dict(wanted.labels)} if wanted.labels else {}),
        "spec": {**_build_spec(wanted), "template": {"spec": pod}},
    }
    return [job, *(code.config_maps(wanted.name) if code else ())]


def replace_code(job: Mapping[str, Any], code: Code) -> list[Body]:
    """Return a copy of a job, followed by the ConfigMaps that contain the new code. The copy uses
    this code.

    `job` is the job as the cluster has it. Raises BadFile if the job has tasks, or has its own
    volumes with the same names as those of the code.
    """
    body = deepcopy(as_written(job))
    name, template = body["metadata"]["name"], body["spec"].get("template")
    if not template:
        raise BadFile(
            f"the job {name} has tasks, so `run` cannot replace its code: edit the job's file, and"
            f" run `kubectl dijob restart {name} -f FILE`"
        )
    code.put_into(template["spec"], name)
    return [body, *code.config_maps(name)]


def _build_spec(wanted: RunRequest) -> Body:
    bounded = wanted.min_replicas is not None or wanted.max_replicas is not None
    spec = {
        "replicas": wanted.replicas or (None if bounded else 1),
        "minReplicas": wanted.min_replicas,
        "maxReplicas": wanted.max_replicas,
        "parallelWorkers": wanted.workers,
        "topology": wanted.topology,
        "messageQueue": {"type": wanted.mq} if wanted.mq is not None else None,
        "backoffLimit": wanted.backoff_limit,
        "activeDeadlineSeconds": _whole_seconds(wanted.deadline),
        "startupDeadlineSeconds": _whole_seconds(wanted.startup_deadline),
        "ttlSecondsAfterFinished": _whole_seconds(wanted.ttl),
    }
    return {key: value for key, value in spec.items() if value is not None}


def _whole_seconds(given: float | None) -> int | None:
    return None if given is None else round(given)


def _build_resources(wanted: RunRequest) -> Body:
    # A CPU limit would throttle the program even if the node has idle CPUs. For GPUs, Kubernetes
    # sets the request to the limit.
    requests = {"cpu": wanted.cpu, "memory": wanted.memory}
    limits = {"memory": wanted.memory, "nvidia.com/gpu": wanted.gpus or None}
    found: Body = {"requests": requests, "limits": limits}
    kept = {key: {k: v for k, v in value.items() if v} for key, value in found.items()}
    return {key: value for key, value in kept.items() if value}


def _build_volumes(wanted: RunRequest) -> tuple[list[Body], list[Body]]:
    """Return the mounts and the volumes. A claim or Secret that is mounted twice needs only one
    volume.
    """
    mounts, volumes = list[Body](), dict[tuple[str, str], Body]()
    given = [("persistentVolumeClaim", "claimName", *pair) for pair in wanted.volumes]
    given += [("secret", "secretName", *pair) for pair in wanted.secrets if pair[1]]
    for kind, key, name, path in given:
        taken = [one["name"] for one in volumes.values()]
        volume = {"name": _volume_name(name, taken), kind: {key: name}}
        mounted = volumes.setdefault((kind, name), volume)
        mount: Body = {"name": mounted["name"], "mountPath": path}
        mounts.append(mount | ({"readOnly": True} if kind == "secret" else {}))
    return mounts, list(volumes.values())


def _volume_name(source: str, others: Collection[str]) -> str:
    """Return a volume name for a claim or a Secret.

    If possible, this is the name of the source, because `local --volume NAME=DIR` uses that name.
    """
    taken = {*others, *OWN_VOLUMES, WORK_VOLUME, CODE_VOLUME}
    if _LABEL.fullmatch(source) and source not in taken:
        return source
    return next(name for name in map("volume-{}".format, count()) if name not in taken)
