"""Builds the DIJob of `run` and the ConfigMap with its code. No I/O."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from dijob import names
from dijob.api.template_checks import OWN_VOLUMES
from dijob.cli.errors import CliError, Exit
from dijob.cli.running import asked
from dijob.cli.running.code import Code

Body = dict[str, Any]

# The working directory of a job with code. It is writable, and contains the code.
WORK: Final = "/work"
_WORK_VOLUME: Final = "work"
_CODE_VOLUME: Final = "code"
# Matches the valid names of volumes. The names of claims can be longer, and can contain dots.
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class BuildRequest:
    """The options of the command."""

    name: str
    image: str
    command: Sequence[str]
    replicas: int = 1
    workers: int | None = None
    cpu: str | None = None
    memory: str | None = None
    gpus: int = 0
    topology: str | None = None
    mq: str | None = None
    env: Sequence[str] = ()
    volumes: Sequence[str] = ()


def build_manifests(wanted: BuildRequest, code: Code | None) -> list[Body]:
    """Return the DIJob, and the ConfigMap with its code if it has any. Raises CliError (USAGE)."""
    asked.check_cpu(wanted.cpu)
    asked.check_memory(wanted.memory)
    asked.check_command(wanted.command)
    main: Body = {
        "name": names.MAIN_CONTAINER,
        "image": wanted.image,
        "command": list(wanted.command),
        "env": _build_env(wanted.env),
    }
    if resources := _build_resources(wanted):
        main["resources"] = resources
    mounts, volumes = _parse_claims(wanted.volumes)
    if code is not None:
        main["workingDir"] = WORK
        mounts, volumes = _code_mounts(code) + mounts, _code_volumes(wanted, code) + volumes
    pod: Body = {"containers": [main]}
    if mounts:
        main["volumeMounts"] = mounts
        pod["volumes"] = volumes
    job = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": wanted.name},
        "spec": {**_build_spec(wanted), "template": {"spec": pod}},
    }
    return [job] if code is None else [job, code.config_map(code_name(wanted.name))]


def code_name(job: str) -> str:
    """Return the name of the ConfigMap with a job's code."""
    return f"{job}-code"


def _build_spec(wanted: BuildRequest) -> Body:
    spec: Body = {"replicas": wanted.replicas}
    if wanted.workers is not None:
        spec["parallelWorkers"] = wanted.workers
    if wanted.topology is not None:
        spec["topology"] = wanted.topology
    if wanted.mq is not None:
        spec["messageQueue"] = {"type": wanted.mq}
    return spec


def _build_resources(wanted: BuildRequest) -> Body:
    # A CPU limit would throttle the program even if the node has idle CPUs. For GPUs, Kubernetes
    # sets the request to the limit.
    requests = {"cpu": wanted.cpu, "memory": wanted.memory}
    limits = {"memory": wanted.memory, "nvidia.com/gpu": wanted.gpus or None}
    found: Body = {"requests": requests, "limits": limits}
    kept = {key: {k: v for k, v in value.items() if v} for key, value in found.items()}
    return {key: value for key, value in kept.items() if value}


def _build_env(given: Sequence[str]) -> list[Body]:
    # Without this variable, Python buffers its output, and the log stays empty for minutes.
    found = {"PYTHONUNBUFFERED": "1"}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise CliError(f"--env {one} is invalid: write NAME=VALUE", Exit.USAGE)
        found[name] = value
    return [{"name": name, "value": value} for name, value in found.items()]


def _parse_claims(given: Sequence[str]) -> tuple[list[Body], list[Body]]:
    """Return mounts and volumes for each CLAIM:/PATH. A claim with two mounts is one volume."""
    mounts, claims = [], dict[str, str]()
    for one in given:
        claim, _, path = one.partition(":")
        if not claim or not path.startswith("/"):
            raise CliError(f"--volume {one} is invalid: write CLAIM:/PATH", Exit.USAGE)
        if claim not in claims:
            claims[claim] = _volume_name(claim, claims.values())
        mounts.append({"name": claims[claim], "mountPath": path})
    volumes: list[Body] = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for claim, name in claims.items()
    ]
    return mounts, volumes


def _volume_name(claim: str, others: Collection[str]) -> str:
    """Return the name of the volume of a claim.

    If possible, this is the name of the claim, because `local --volume NAME=DIR` uses that name.
    """
    taken = {*others, *OWN_VOLUMES, _WORK_VOLUME, _CODE_VOLUME}
    if _LABEL.fullmatch(claim) and claim not in taken:
        return claim
    return next(name for name in map("volume-{}".format, count()) if name not in taken)


def _code_mounts(code: Code) -> list[Body]:
    """Return the mounts of the working directory and of each code entry in it.

    A ConfigMap volume is read-only, but programs write into their working directory. So the
    directory is an emptyDir, and only the entries come from the ConfigMap.
    """
    entries = [
        {"name": _CODE_VOLUME, "mountPath": f"{WORK}/{entry}", "subPath": entry, "readOnly": True}
        for entry in code.entries
    ]
    return [{"name": _WORK_VOLUME, "mountPath": WORK}, *entries]


def _code_volumes(wanted: BuildRequest, code: Code) -> list[Body]:
    source = {"name": code_name(wanted.name), "items": code.items()}
    return [{"name": _WORK_VOLUME, "emptyDir": {}}, {"name": _CODE_VOLUME, "configMap": source}]
