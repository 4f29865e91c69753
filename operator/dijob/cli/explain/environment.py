"""Computes the environment variables of a pod's processes.

Three programs set these variables: the operator writes them into the pod, the kubelet resolves
references, and the launcher adds the variables of the peer list. This module renders the pod with
the operator's code, and imitates the other two. `kubectl dijob local` starts its processes with the
result.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob import names
from dijob.api.model import DIJob
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, GangMember, gang_of
from dijob.core.options import Options
from dijob.core.render import annotations
from dijob.core.render.fields import Manifest, as_mapping, objects_in
from dijob.core.render.pod import pod_manifest
from dijob.names import Launcher

# The kubelet's syntax: $(NAME), and $$ for a dollar sign (third_party/forked/golang/expansion).
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()]*)\)")
# The prefix of variables that the operator, the launcher and the runtime hook use among themselves.
# Programs do not read these variables.
_INTERNAL: Final = "DIJOB_"

Lookup = Callable[[str, str, str], str | None]


def _resolve_nothing(_kind: str, _name: str, _key: str) -> str | None:
    return None


@dataclass(frozen=True)
class PodPlace:
    """The facts about one rank's pod that the cluster would determine.

    `addresses` is the peer list. `lookup` returns the value of a key of a ConfigMap or Secret, by
    kind, name and key; None if it is unknown. With an empty key it returns the keys, one per line.
    """

    member: GangMember
    ip: str
    addresses: AddressList
    node: str = "<name of the node>"
    lookup: Lookup = _resolve_nothing


@dataclass(frozen=True)
class Variable:
    """An environment variable.

    `value` is None if the value is unknown until the pod runs; `unknown` then describes it. An
    `optional` variable may be absent. `ours` is true if the operator, not the template, sets the
    variable.
    """

    name: str
    value: str | None
    unknown: str = ""
    ours: bool = False
    optional: bool = False

    @property
    def shown(self) -> str:
        """The value, or its description in angle brackets."""
        return self.value if self.value is not None else f"<{self.unknown}>"


@dataclass
class _Environment:
    """The variables so far. As with the kubelet, a value can only refer to earlier variables."""

    found: dict[str, Variable] = field(default_factory=dict)

    def add(self, variable: Variable) -> None:
        # As with the kubelet, a later entry replaces an earlier one of the same name.
        self.found.pop(variable.name, None)
        self.found[variable.name] = variable

    def expand(self, text: str) -> str:
        """Replace $(NAME) with the variable's value. An unknown reference stays as it is."""

        def one(match: re.Match[str]) -> str:
            if match[0] == "$$":
                return "$"
            known = self.found.get(match[1])
            return known.shown if known else match[0]

        return _REFERENCE.sub(one, text)


@dataclass(frozen=True)
class MainProcess:
    """The process of the main container: its command line, and its variables in order."""

    command: tuple[str, ...]
    variables: tuple[Variable, ...]
    pod: Manifest

    @property
    def public(self) -> tuple[Variable, ...]:
        """The variables that a program may read. Internal variables are excluded."""
        return tuple(one for one in self.variables if not one.name.startswith(_INTERNAL))


def main_process(job: DIJob, place: PodPlace, options: Options) -> MainProcess:
    """Return the process of a rank's main container. The command does not include the launcher."""
    pod_set = job.pod_set_of(place.member.rank)
    made = pod_manifest(job, place.member, options)
    name = pod_set.main_container.get("name")
    main = next(one for one in made["spec"]["containers"] if one.get("name") == name)
    gang, env = gang_of(job), _Environment()
    listed = {
        names.ANNOTATION_IPS: place.addresses.text,
        **annotations.made_of(gang, place.addresses),
    }
    # The operator adds the peer list to the annotations of a running pod. The rendered pod lacks
    # the list, so the list is added here.
    made["metadata"]["annotations"] |= listed
    # A variable that the template sets is never overwritten.
    users = {str(one.get("name")) for one in objects_in(pod_set.main_container.get("env"))}
    for variable in _env_from_variables(main, place):
        env.add(variable)
    # The entries of env follow envFrom, because in Kubernetes env overrides envFrom.
    for entry in objects_in(main.get("env")):
        env.add(_env_variable(entry, env, made, place, users))
    # Without a command there is no launcher, because the operator does not know what the image
    # runs.
    if job.spec.launcher is Launcher.AUTO and pod_set.main_container.get("command"):
        for variable in _launcher_variables(gang, place.member, listed, users):
            env.add(variable)
    given = [*(pod_set.main_container.get("command") or ()), *(main.get("args") or ())]
    words = ("" if word is None else str(word) for word in given)
    return MainProcess(tuple(env.expand(word) for word in words), tuple(env.found.values()), made)


def _launcher_variables(
    gang: Gang, member: GangMember, listed: Mapping[str, str], users: set[str]
) -> Iterator[Variable]:
    """Yield the variables that the launcher sets (the launcher's run/variables.go).

    These are the variables of the peer list, except those that the template sets. Without a
    launcher, the kubelet reads the same values from the annotations.
    """
    for name, annotation in annotations.list_variables(gang, member):
        if name not in users:
            yield Variable(name, listed[annotation], ours=True)


def _env_from_variables(main: Manifest, place: PodPlace) -> Iterator[Variable]:
    """Yield the variables of envFrom: all keys of a ConfigMap or Secret. If the keys are unknown,
    one variable represents all of them.
    """
    for entry in objects_in(main.get("envFrom")):
        for source, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            name = str(as_mapping(entry.get(source)).get("name", ""))
            if name:
                description = f"all keys of {kind} {name}"
                keys = place.lookup(kind, name, "")
                for key in (keys or "").splitlines():
                    yield Variable(
                        f"{entry.get('prefix') or ''}{key}", place.lookup(kind, name, key)
                    )
                if keys is None:
                    optional = bool(as_mapping(entry.get(source)).get("optional"))
                    yield Variable(f"{kind}/{name}", None, description, optional=optional)


def _env_variable(
    entry: Manifest, env: _Environment, pod: Manifest, place: PodPlace, users: set[str]
) -> Variable:
    name = str(entry.get("name"))
    ours = name not in users
    if entry.get("valueFrom") is None:
        given = entry.get("value")
        return Variable(name, env.expand("" if given is None else str(given)), ours=ours)
    source = as_mapping(entry.get("valueFrom"))
    if "fieldRef" in source:
        path = str(as_mapping(source["fieldRef"]).get("fieldPath", ""))
        return Variable(name, _pod_field(path, pod, place), f"the pod's {path}", ours=ours)
    if "resourceFieldRef" in source:
        resource = str(as_mapping(source["resourceFieldRef"]).get("resource", ""))
        return Variable(name, None, f"the container's {resource}", ours=ours)
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in source:
            ref = as_mapping(source[key])
            where = str(ref.get("name", "")), str(ref.get("key", ""))
            return Variable(
                name,
                place.lookup(kind, *where),
                f"key {where[1]} of {kind} {where[0]}",
                ours=ours,
                optional=bool(ref.get("optional")),
            )
    return Variable(name, None, f"from {', '.join(source) or 'an empty source'}", ours=ours)


def _pod_field(path: str, pod: Manifest, place: PodPlace) -> str | None:
    """Return a field of the pod as the downward API does; None if only a cluster knows it."""
    meta, spec = pod["metadata"], pod["spec"]
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    known = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "spec.nodeName": place.node,
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.podIP": place.ip,
        "status.podIPs": place.ip,
        "status.hostIP": f"<IP of {place.node.strip('<>')}>",
    }
    return known.get(path)
