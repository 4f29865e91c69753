"""The validation rules for a pod template (`spec.template` or the template of a task) beyond its
schema.

The rules cover the fields that the operator needs or adds. All other fields are left to the
apiserver, which validates the pods: it knows the rules of its own version.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from dijob import names
from dijob.api.pod_sets import PodSet, containers_in, entries_at
from dijob.api.problems import Problem
from dijob.api.spec import Spec
from dijob.names import Topology

SLIP_MESSAGE: Final = (
    "`containers` belongs in template.spec, not next to it: indent `containers:` by two more"
    " spaces, so that it is inside `spec:`"
)
NO_CONTAINER_MESSAGE: Final = (
    "needs at least one container: add one to spec.template.spec.containers"
)
RESTART_MESSAGE: Final = (
    "with Always, finished ranks would restart forever; it must be OnFailure or Never (the default"
    " is OnFailure)"
)
CONTAINER_RESTART_MESSAGE: Final = (
    "the operator counts failures according to the pod's restartPolicy, so a container cannot have"
    " its own: remove it, and use the pod's restartPolicy, or spec.failurePolicy for specific exit"
    " codes (only an init container may have restartPolicy: Always, as a sidecar)"
)
RESERVED_MESSAGE: Final = (
    "is set by the operator and cannot be overridden, because it describes the rank and its peers:"
    " remove it. Every container has DI_RANK, DI_NUM_NODES and DI_POD_IP. To get the"
    " addresses in another container, add a variable with a different name and a fieldRef to"
    f" metadata.annotations[{names.ANNOTATION_IPS}]"
)
# Linux does not start a program with a longer argument or variable. The length includes the
# terminating zero (MAX_ARG_STRLEN).
LONGEST_STRING: Final = 128 * 1024
LONG_MESSAGE: Final = (
    "is longer than the 131,071 bytes that Linux allows for one argument or variable: put it into a"
    " ConfigMap, mount that as a volume, and pass the path of the file to the program"
)
DNS_MESSAGE: Final = (
    "is Default, so the pods cannot resolve the cluster's DNS names. `addressing: Hostname`,"
    " `runtime: slurm` and the job's own Redis server need these names: remove dnsPolicy, or the"
    " setting that needs the names"
)
OWNED_MESSAGE: Final = "is set by the operator to the rank's own name: remove it"
PREFIX_MESSAGE: Final = (
    f"keys with the prefix {names.GROUP}/ are reserved for the operator: choose another prefix"
)
FOLDER_MESSAGE: Final = "is where the operator mounts its own files: choose another path"
# Names of the containers and volumes that the operator adds to each pod (core/render/pod.py).
OWN_CONTAINERS: Final = (names.LAUNCHER_CONTAINER, names.GATE_CONTAINER)
OWN_VOLUMES: Final = (
    names.BIN_VOLUME,
    names.POD_VOLUME,
    names.LAUNCHER_VOLUME,
    names.SERVER_VOLUME,
)
_OWN: Final = {
    "containers": OWN_CONTAINERS,
    "initContainers": OWN_CONTAINERS,
    "volumes": OWN_VOLUMES,
}
OWN_NAME_MESSAGE: Final = (
    "is reserved for a container or volume that the operator adds: choose another name"
)


def template_problems(pod_set: PodSet, spec: Spec) -> Iterator[Problem]:
    """Yield all reasons why pods of this template cannot run as written."""
    # `containers` next to `spec` is a frequent indentation mistake. All other rules would only
    # report consequences of this mistake.
    if pod_set.template.containers is not None:
        yield Problem(f"{pod_set.path}.containers", SLIP_MESSAGE)
        return
    yield from _prefix_problems(pod_set)
    if not containers_in(pod_set.pod):
        yield Problem(f"{pod_set.path}.spec.containers", NO_CONTAINER_MESSAGE)
        return
    yield from _field_problems(pod_set, spec)
    for key in ("containers", "initContainers"):
        yield from _reserved_variables(pod_set, key)
        yield from _long_strings(pod_set, key)
    yield from _own_names(pod_set, spec)
    yield from _own_folder(pod_set)


def _field_problems(pod_set: PodSet, spec: Spec) -> Iterator[Problem]:
    pod, path = pod_set.pod, f"{pod_set.path}.spec"
    if pod.get("restartPolicy") not in (None, "OnFailure", "Never"):
        yield Problem(f"{path}.restartPolicy", f"is {pod['restartPolicy']}: {RESTART_MESSAGE}")
    # The dnsPolicy "None" is accepted, because the template's own dnsConfig may still resolve the
    # cluster's names.
    if spec.needs_dns and pod.get("dnsPolicy") == "Default":
        yield Problem(f"{path}.dnsPolicy", DNS_MESSAGE)
    for field in ("hostname", "subdomain"):
        if pod.get(field):
            yield Problem(f"{path}.{field}", OWNED_MESSAGE)


def _prefix_problems(pod_set: PodSet) -> Iterator[Problem]:
    # Keys with the operator's prefix carry the peer list from the operator to the launcher, so a
    # user's value could be mistaken for the operator's.
    given = pod_set.template.metadata
    for field, keys in (("labels", given.labels or {}), ("annotations", given.annotations or {})):
        own = sorted(key for key in keys if key.startswith(f"{names.GROUP}/"))
        if own:
            yield Problem(f"{pod_set.path}.metadata.{field}", f"{', '.join(own)}: {PREFIX_MESSAGE}")


def _reserved_variables(pod_set: PodSet, key: str) -> Iterator[Problem]:
    # All containers are checked, because the operator sets some of the reserved variables in each
    # of them. These are the variables that do not change with the peer list.
    for at, container in enumerate(containers_in(pod_set.pod, key)):
        env = container.get("env")
        for entry in env if isinstance(env, list) else []:
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if name in names.RESERVED_ENV:
                yield Problem(f"{pod_set.path}.spec.{key}[{at}].env", f"{name} {RESERVED_MESSAGE}")


def _long_strings(pod_set: PodSet, key: str) -> Iterator[Problem]:
    """Yield a problem for each string that is so long that Linux could not start the program.

    The CRD has the same rules, but CEL counts characters, while Linux counts bytes.
    """
    for at, container in enumerate(containers_in(pod_set.pod, key)):
        path = f"{pod_set.path}.spec.{key}[{at}]"
        for field in ("command", "args"):
            words = container.get(field)
            for number, word in enumerate(words if isinstance(words, list) else ()):
                if _is_long(word):
                    yield Problem(f"{path}.{field}[{number}]", LONG_MESSAGE)
        for number, entry in enumerate(entries_at(container, "env")):
            if _is_long(f"{entry.get('name')}={entry.get('value')}"):
                yield Problem(f"{path}.env[{number}]", LONG_MESSAGE)


def _is_long(text: object) -> bool:
    # The length in characters is checked first, because it is cheap. UTF-8 has at most four bytes
    # per character.
    return (
        isinstance(text, str)
        and len(text) >= LONGEST_STRING // 4
        and len(text.encode(errors="replace")) >= LONGEST_STRING
    )


def _own_folder(pod_set: PodSet) -> Iterator[Problem]:
    # A volume in MOUNT_FOLDER would hide the launcher's programs, and the container could not
    # start.
    for at, container in enumerate(containers_in(pod_set.pod)):
        mounts = container.get("volumeMounts")
        for mount in mounts if isinstance(mounts, list) else []:
            path = f"{mount.get('mountPath')}/" if isinstance(mount, Mapping) else ""
            if path.startswith(f"{names.MOUNT_FOLDER}/"):
                yield Problem(
                    f"{pod_set.path}.spec.containers[{at}].volumeMounts",
                    f"{path[:-1]} {FOLDER_MESSAGE}",
                )


def _own_names(pod_set: PodSet, spec: Spec) -> Iterator[Problem]:
    for key, own in _OWN.items():
        for at, one in enumerate(containers_in(pod_set.pod, key)):
            if one.get("name") in own:
                yield Problem(
                    f"{pod_set.path}.spec.{key}[{at}].name", f"{one['name']} {OWN_NAME_MESSAGE}"
                )
    # A name of the wrong type is reported by the rules for spec.volumes, or by the apiserver.
    shared = {name for one in spec.volumes or () if isinstance(name := one.get("name"), str)}
    for at, one in enumerate(containers_in(pod_set.pod, "volumes")):
        if isinstance(name := one.get("name"), str) and name in shared:
            yield Problem(
                f"{pod_set.path}.spec.volumes[{at}].name",
                f"{name} is also the name of a volume in spec.volumes, which every pod gets: rename"
                " or remove one of the two",
            )


def restart_problems(pod_set: PodSet) -> Iterator[Problem]:
    """Yield a problem for each container that has its own restart policy (KEP-5307).

    The operator counts failures according to the pod's restart policy. A container with its own
    policy would mislead the operator. The operator would wait for a container that never restarts,
    or would count a restart that the container's own restart rules caused.
    """
    for at, container in enumerate(containers_in(pod_set.pod)):
        for field in ("restartPolicy", "restartPolicyRules"):
            if value := container.get(field):
                found = f"is {value}" if isinstance(value, str) else "is set"
                yield Problem(
                    f"{pod_set.path}.spec.containers[{at}].{field}",
                    f"{found}: {CONTAINER_RESTART_MESSAGE}",
                )


def command_problems(pod_set: PodSet, spec: Spec) -> Iterator[Problem]:
    """Yield contradictions between the spec and the command's own options.

    The options are those of DI-engine 0.5.3, ding/entry/cli_ditask.py. The command's options take
    precedence in the pod, so in case of a contradiction, the programs would not run as the status
    says.
    """
    command, field = pod_set.command, spec.explicit("parallel_workers")
    flag, at = command.parallel_workers, f"{pod_set.path}.spec.containers"
    if flag is not None and field is not None and flag != field:
        yield Problem(
            spec.place("parallel_workers"),
            f"is {field}, but the command{_of_task(pod_set)} has --parallel-workers {flag}: make"
            " them"
            " equal or remove one",
        )
    elif flag is not None and not 1 <= flag <= names.MAX_WORKERS:
        yield Problem(
            at,
            f"the command has --parallel-workers {flag}; it must be from 1 to {names.MAX_WORKERS}",
        )
    queue = spec.message_queue.type if spec.message_queue else None
    if queue and command.mq_type is not None and command.mq_type != queue:
        yield Problem(
            "spec.messageQueue.type",
            f"is {queue}, but the command{_of_task(pod_set)} has --mq-type {command.mq_type}: make"
            " them"
            " equal or remove one",
        )
    topology, option, known = spec.explicit("topology"), command.topology, ", ".join(Topology)
    if option is not None and option not in set(Topology):
        yield Problem(at, f"the command has --topology {option}; it must be one of {known}")
    elif option is not None and topology is not None and option != topology:
        yield Problem(
            spec.place("topology"),
            f"is {topology}, but the command{_of_task(pod_set)} has --topology {option}: make them"
            " equal or remove one",
        )


def _of_task(pod_set: PodSet) -> str:
    return f" of task {pod_set.name}" if pod_set.name else ""
