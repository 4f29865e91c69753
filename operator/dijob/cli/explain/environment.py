"""The variables that a pod's processes will have: those of the pod as the operator makes it, with
what the kubelet and the launcher put in."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dijob import names
from dijob.api.model import DIJob
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, Member, gang_of
from dijob.core.options import Options
from dijob.core.render import annotations
from dijob.core.render.fields import Manifest, mapping, objects
from dijob.core.render.pod import pod_manifest
from dijob.names import Launcher

# As the kubelet reads $(NAME), and $$ before a parenthesis (third_party/forked/golang/expansion).
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()]*)\)")
# Of the launcher and the hook alone: no program reads them.
_INTERNAL: Final = "DIJOB_"

Lookup = Callable[[str, str, str], str | None]


def _nothing(_kind: str, _name: str, _key: str) -> str | None:
    return None


@dataclass(frozen=True)
class Place:
    """What is known of one rank's pod: its own address, and the job's list. `lookup` gives the
    value of a key of a ConfigMap or Secret (kind, name, key), None where it does not have it."""

    member: Member
    ip: str
    addresses: AddressList
    node: str = "<name of the node>"
    lookup: Lookup = _nothing


@dataclass(frozen=True)
class Variable:
    """One variable. `value` is None where it is `unknown` until the pod runs: what it will be, in
    words. `optional`: it may be left out then. `ours`: the operator sets it, and not the template.
    """

    name: str
    value: str | None
    unknown: str = ""
    ours: bool = False
    optional: bool = False

    @property
    def shown(self) -> str:
        """The value, or what it will be."""
        return self.value if self.value is not None else f"<{self.unknown}>"


@dataclass
class _Environment:
    """The variables so far: a value may name those before it."""

    found: dict[str, Variable] = field(default_factory=dict)

    def add(self, variable: Variable) -> None:
        self.found.pop(variable.name, None)
        self.found[variable.name] = variable

    def expand(self, text: str) -> str:
        """The text with the kubelet's $(NAME) replaced; what names nothing stays as it is."""

        def one(match: re.Match[str]) -> str:
            if match[0] == "$$":
                return "$"
            known = self.found.get(match[1])
            return known.shown if known else match[0]

        return _REFERENCE.sub(one, text)


@dataclass(frozen=True)
class Process:
    """What the main container runs: its command line, and its variables in the order in which they
    are set."""

    command: tuple[str, ...]
    variables: tuple[Variable, ...]
    pod: Manifest

    @property
    def public(self) -> tuple[Variable, ...]:
        """Without those that are between the operator, its launcher and its hook."""
        return tuple(one for one in self.variables if not one.name.startswith(_INTERNAL))


def process(job: DIJob, place: Place, options: Options) -> Process:
    """The main container of a rank as it will start. The command is the template's, without the
    launcher."""
    pod_set = job.pod_set_of(place.member.rank)
    made = pod_manifest(job, place.member, options)
    name = pod_set.main_container.get("name")
    main = next(one for one in made["spec"]["containers"] if one.get("name") == name)
    gang, env = gang_of(job), _Environment()
    listed = {
        names.ANNOTATION_IPS: place.addresses.text,
        **annotations.made_of(gang, place.addresses),
    }
    made["metadata"]["annotations"] |= listed
    users = {str(one.get("name")) for one in objects(pod_set.main_container.get("env"))}
    for variable in _from_sources(main, place):
        env.add(variable)
    for entry in objects(main.get("env")):
        env.add(_one(entry, env, made, place, users))
    if job.spec.launcher is Launcher.AUTO and pod_set.main_container.get("command"):
        for variable in _by_launcher(gang, listed, users):
            env.add(variable)
    given = [*(pod_set.main_container.get("command") or ()), *(main.get("args") or ())]
    words = ("" if word is None else str(word) for word in given)
    return Process(tuple(env.expand(word) for word in words), tuple(env.found.values()), made)


def _by_launcher(gang: Gang, listed: Mapping[str, str], users: set[str]) -> Iterator[Variable]:
    """What the launcher sets (images/launcher/variables.go): each variable of the list that the
    template does not set itself. Without a launcher the kubelet takes the same from annotations.
    """
    for name, annotation in annotations.variables(gang):
        if name not in users:
            yield Variable(name, listed[annotation], ours=True)


def _from_sources(main: Manifest, place: Place) -> Iterator[Variable]:
    """envFrom: all keys of a ConfigMap or a Secret, of which a cluster alone may know."""
    for entry in objects(main.get("envFrom")):
        for source, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            name = str(mapping(entry.get(source)).get("name", ""))
            if name:
                said = f"all keys of {kind} {name}"
                keys = place.lookup(kind, name, "")
                for key in (keys or "").splitlines():
                    yield Variable(
                        f"{entry.get('prefix') or ''}{key}", place.lookup(kind, name, key)
                    )
                if keys is None:
                    optional = bool(mapping(entry.get(source)).get("optional"))
                    yield Variable(f"{kind}/{name}", None, said, optional=optional)


def _one(
    entry: Manifest, env: _Environment, pod: Manifest, place: Place, users: set[str]
) -> Variable:
    name = str(entry.get("name"))
    ours = name not in users
    if entry.get("valueFrom") is None:
        given = entry.get("value")
        return Variable(name, env.expand("" if given is None else str(given)), ours=ours)
    source = mapping(entry.get("valueFrom"))
    if "fieldRef" in source:
        path = str(mapping(source["fieldRef"]).get("fieldPath", ""))
        return Variable(name, _field(path, pod, place), f"the pod's {path}", ours=ours)
    if "resourceFieldRef" in source:
        asked = str(mapping(source["resourceFieldRef"]).get("resource", ""))
        return Variable(name, None, f"the container's {asked}", ours=ours)
    for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if key in source:
            ref = mapping(source[key])
            where = str(ref.get("name", "")), str(ref.get("key", ""))
            return Variable(
                name,
                place.lookup(kind, *where),
                f"key {where[1]} of {kind} {where[0]}",
                ours=ours,
                optional=bool(ref.get("optional")),
            )
    return Variable(name, None, f"from {', '.join(source) or 'nowhere'}", ours=ours)


def _field(path: str, pod: Manifest, place: Place) -> str | None:
    """A field of the pod by the downward API; None where only a cluster knows it."""
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
