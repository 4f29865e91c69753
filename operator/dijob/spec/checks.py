"""The rules of a DIJob beyond its schema (the CRD's CEL checks what it can afford), and the warnings."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dijob import names
from dijob.names import Addressing, Launcher, Topology
from dijob.spec.problems import Problem

if TYPE_CHECKING:
    from dijob.spec.model import DIJob, Spec

# A Service's name is stricter than a pod's, and JOB-RANK with a rank of four digits must fit into 63.
NAME_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
NAME_LENGTH: Final = 58
NAME_MESSAGE: Final = (
    f"must match {NAME_PATTERN} and have at most {NAME_LENGTH} characters, because the pods are named "
    "NAME-RANK and the Service NAME: choose another name"
)
SLIP_MESSAGE: Final = (
    "containers belongs under template.spec, not beside it: indent `containers:` by two more spaces, so "
    "that it stands below `spec:`"
)
NO_CONTAINER_MESSAGE: Final = "needs at least one container: put it under spec.template.spec.containers"
NO_SIZE_MESSAGE: Final = "one of replicas, minReplicas and maxReplicas is needed: it says how many pods the job has"
RESTART_MESSAGE: Final = (
    "Always would start finished ranks again for ever; it must be OnFailure or Never (absent means OnFailure)"
)
HOST_NETWORK_MESSAGE: Final = (
    "is not supported yet: ranks on one node would fight over port 50515; remove it or set it to false"
)
RESERVED_MESSAGE: Final = (
    f"is set by the operator and cannot be given ({', '.join(names.RESERVED_ENV)} describe the rank and its "
    "peers): remove it"
)
DNS_MESSAGE: Final = (
    "is Default, and pods then know no names of the cluster, which addressing: Hostname needs: remove one of the two"
)
OWNED_MESSAGE: Final = "is set by the operator to the rank's own name: remove it"
PREFIX_MESSAGE: Final = f"keys below {names.GROUP}/ belong to the operator: choose another prefix"
FOLDER_MESSAGE: Final = "is where the operator mounts its own files: choose another path"
# The list stands twice in a pod's annotations (256 KiB in sum) and once in an environment string (128 KiB).
LIST_LENGTH: Final = 100_000
# Names of what the operator adds to each pod (see manifests.py).
_OWN_CONTAINERS: Final = (names.GATE_CONTAINER,)
_OWN_VOLUMES: Final = (names.BIN_VOLUME, names.POD_VOLUME)


def problems(job: "DIJob") -> tuple[Problem, ...]:
    """Everything that keeps the job from being run as it is written."""
    found = [*_name(job.metadata.name), *_sizes(job.spec), *_addressing(job), *_template(job.spec)]
    if not any(problem.field.startswith("spec.template.spec.containers") for problem in found):
        found += _command(job)
    return tuple(found)


def warnings(job: "DIJob") -> tuple[Problem, ...]:
    """What runs, but perhaps not as its author thinks."""
    return (*_stranger(job), *_hidden(job))


def containers(spec: Mapping[str, Any] | None, key: str = "containers") -> list[Mapping[str, Any]]:
    """The containers (or initContainers) of a raw pod spec; what is no object is left out."""
    value = (spec or {}).get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _name(name: str) -> Iterator[Problem]:
    if len(name) > NAME_LENGTH or not re.fullmatch(NAME_PATTERN, name):
        yield Problem("metadata.name", f"{name!r} {NAME_MESSAGE}")


def _sizes(spec: "Spec") -> Iterator[Problem]:
    least, most, wish = spec.min_replicas, spec.max_replicas, spec.replicas
    if least is None and most is None and wish is None:
        yield Problem("spec", NO_SIZE_MESSAGE)
    if least is not None and most is not None and least > most:
        yield Problem("spec.minReplicas", f"is {least}, but maxReplicas is {most}: change one of them")
        return
    if wish is not None and least is not None and wish < least:
        yield Problem("spec.replicas", f"is {wish}, but minReplicas is {least}: change both in the same edit")
    if wish is not None and most is not None and wish > most:
        yield Problem("spec.replicas", f"is {wish}, but maxReplicas is {most}: change both in the same edit")


def _addressing(job: "DIJob") -> Iterator[Problem]:
    """A list of names of the longest kind, with 1,500 of them, would be more than a pod can carry."""
    size = job.spec.maximum
    each = len(f"{job.metadata.name}-{size - 1}.{job.metadata.name},")
    if job.spec.addressing is Addressing.HOSTNAME and size * each > LIST_LENGTH:
        most = LIST_LENGTH // each
        yield Problem(
            "spec.addressing",
            f"is Hostname, and a list of {size} names of {each} characters does not fit into a pod: a job of this "
            f"name can have {most} replicas so; take fewer, a shorter name, or addressing: IP",
        )


def _template(spec: "Spec") -> Iterator[Problem]:
    pod = spec.template.spec
    if spec.template.containers is not None:
        yield Problem("spec.template.containers", SLIP_MESSAGE)
        return
    yield from _prefixes(spec)
    if pod is None or not containers(pod):
        yield Problem("spec.template.spec.containers", NO_CONTAINER_MESSAGE)
        return
    if pod.get("restartPolicy") not in (None, "OnFailure", "Never"):
        yield Problem("spec.template.spec.restartPolicy", f"is {pod['restartPolicy']}: {RESTART_MESSAGE}")
    if pod.get("hostNetwork"):
        yield Problem("spec.template.spec.hostNetwork", HOST_NETWORK_MESSAGE)
    if spec.addressing is Addressing.HOSTNAME and pod.get("dnsPolicy") == "Default":
        yield Problem("spec.template.spec.dnsPolicy", DNS_MESSAGE)
    for field in ("hostname", "subdomain"):
        if pod.get(field):
            yield Problem(f"spec.template.spec.{field}", OWNED_MESSAGE)
    for key in ("containers", "initContainers"):
        yield from _reserved(pod, key)
    yield from _own_names(pod)
    yield from _own_folder(pod)


def _prefixes(spec: "Spec") -> Iterator[Problem]:
    given = spec.template.metadata
    for field, keys in (("labels", given.labels or {}), ("annotations", given.annotations or {})):
        own = sorted(key for key in keys if key.startswith(f"{names.GROUP}/"))
        if own:
            yield Problem(f"spec.template.metadata.{field}", f"{', '.join(own)}: {PREFIX_MESSAGE}")


def _reserved(pod: Mapping[str, Any], key: str) -> Iterator[Problem]:
    for at, container in enumerate(containers(pod, key)):
        env = container.get("env")
        for entry in env if isinstance(env, list) else []:
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if name in names.RESERVED_ENV:
                yield Problem(f"spec.template.spec.{key}[{at}].env", f"{name} {RESERVED_MESSAGE}")


def _own_folder(pod: Mapping[str, Any]) -> Iterator[Problem]:
    for at, container in enumerate(containers(pod)):
        mounts = container.get("volumeMounts")
        for mount in mounts if isinstance(mounts, list) else []:
            path = f"{mount.get('mountPath')}/" if isinstance(mount, Mapping) else ""
            if path.startswith(f"{names.POD_FOLDER}/"):
                yield Problem(f"spec.template.spec.containers[{at}].volumeMounts", f"{path[:-1]} {FOLDER_MESSAGE}")


def _own_names(pod: Mapping[str, Any]) -> Iterator[Problem]:
    own_names = {"containers": _OWN_CONTAINERS, "initContainers": _OWN_CONTAINERS, "volumes": _OWN_VOLUMES}
    for key, own in own_names.items():
        for at, one in enumerate(containers(pod, key)):
            if one.get("name") in own:
                yield Problem(
                    f"spec.template.spec.{key}[{at}].name",
                    f"{one['name']} is the name of something that the operator adds: choose another name",
                )


def _command(job: "DIJob") -> Iterator[Problem]:
    """The field against the command's own flag (DI-engine 0.5.3, ding/entry/cli_ditask.py)."""
    told, field = job.command, job.spec.parallel_workers
    flag = told.parallel_workers
    if flag is not None and field is not None and flag != field:
        yield Problem(
            "spec.parallelWorkers",
            f"is {field}, but the command says --parallel-workers {flag}: make them equal or remove one",
        )
    elif flag is not None and not 1 <= flag <= names.MAX_WORKERS:
        yield Problem(
            "spec.template.spec.containers",
            f"the command says --parallel-workers {flag}; it must be from 1 to {names.MAX_WORKERS}",
        )
    yield from _topology(job)


def _topology(job: "DIJob") -> Iterator[Problem]:
    told, field = job.command.topology, job.spec.topology
    known = ", ".join(Topology)
    if told is not None and told not in set(Topology):
        yield Problem("spec.template.spec.containers", f"the command says --topology {told}; it must be one of {known}")
    elif told is not None and "topology" in job.spec.model_fields_set and told != field:
        yield Problem(
            "spec.topology",
            f"is {field}, but the command says --topology {told}: make them equal or remove one",
        )


def _stranger(job: "DIJob") -> Iterator[Problem]:
    """A ditask that will know no peers: without `--platform k8s` it ignores DI_NODES (cli_ditask.py)."""
    told = job.command
    if not told.runs_ditask or told.platform is not None or told.hides("platform"):
        return
    remedy = "add `--platform k8s --topology mesh` to the command yourself"
    if job.spec.launcher is Launcher.OFF:
        why = "launcher is Off and the command gives ditask no --platform, so every pod will train alone"
        yield Problem("spec.launcher", f"{why}: {remedy}, or set launcher: Auto")
    elif told.bypass is not None:
        why = f"{told.bypass} keeps the operator's ditask from being found, so every pod may train alone"
        yield Problem("spec.template.spec.containers", f"{why}: {remedy}, or start plain `ditask`")


def _hidden(job: "DIJob") -> Iterator[Problem]:
    """Values that the operator must know and cannot read."""
    unset = (("parallel-workers", "parallelWorkers", "1"), ("topology", "topology", "mesh"))
    for option, field, default in unset:
        if job.command.hides(option) and field not in _given(job.spec):
            yield Problem(
                f"spec.{field}",
                f"is not set and the command's --{option} cannot be read (a variable, or calls that differ), "
                f"so {default} is assumed: set spec.{field}",
            )


def _given(spec: "Spec") -> set[str]:
    return {str(type(spec).model_fields[name].alias) for name in spec.model_fields_set}
