"""Finds the objects that the pods of a job refer to, such as ConfigMaps and claims. No I/O.

The API server does not check most of these references. If a pod's ConfigMap does not
exist, the pod is created anyway, and then waits.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from dijob.cli.explain.fit import NO, UNKNOWN, YES
from dijob.core.render.fields import as_mapping, objects_in

Body = Mapping[str, Any]

CONFIG_MAP, SECRET, CLAIM = "ConfigMap", "Secret", "PersistentVolumeClaim"
SERVICE_ACCOUNT, PRIORITY_CLASS = "ServiceAccount", "PriorityClass"
RUNTIME_CLASS, STORAGE_CLASS = "RuntimeClass", "StorageClass"
# The pod fields that contain the name of an object.
_NAMING_FIELDS: Final = {
    "serviceAccountName": SERVICE_ACCOUNT,
    "priorityClassName": PRIORITY_CLASS,
    "runtimeClassName": RUNTIME_CLASS,
}
# A Kubernetes controller creates this account in each namespace, and pods use it by default.
_DEFAULT_ACCOUNT: Final = "default"
# From harmless to fatal. If several references name one object, the most severe applies.
_SEVERITY: Final = (YES, UNKNOWN, NO)


@dataclass(frozen=True)
class ObjectReference:
    """An object that pods need.

    `missing` is the verdict if the object does not exist. The object's data must contain `keys`.
    `pods` is the number of pods that refer to the object. If the object is a StorageClass, `user`
    describes the claim or volume that refers to it. A StorageClass without a name is the cluster's
    default class.
    """

    kind: str
    name: str
    missing: str = NO
    keys: frozenset[str] = frozenset()
    pods: int = 1
    user: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}" if self.name else f"a default {self.kind}"

    def joined(self, other: "ObjectReference") -> "ObjectReference":
        """Merge two references to the same object in the same pod into one."""
        missing = max(self.missing, other.missing, key=_SEVERITY.index)
        return replace(self, missing=missing, keys=self.keys | other.keys)


def references_of(pods: Iterable[tuple[Body, int]]) -> list[ObjectReference]:
    """Return the references of pods. Each pair is a spec and the number of pods with this spec."""
    found: dict[tuple[str, str], ObjectReference] = {}
    for spec, count in pods:
        own: dict[tuple[str, str], ObjectReference] = {}
        for one in _of_pod(spec):
            key = (one.kind, one.name)
            own[key] = own[key].joined(one) if key in own else replace(one, pods=count)
        for key, one in own.items():
            before = found.get(key)
            found[key] = replace(one.joined(before), pods=count + before.pods) if before else one
    return list(found.values())


def storage_class_of(claim: Body, user: str) -> Iterator[ObjectReference]:
    """Yield the StorageClass that provisions the volume of a claim.

    A claim with the class "" binds only to an existing volume, and needs no StorageClass.
    """
    spec = as_mapping(claim.get("spec"))
    name = spec.get("storageClassName")
    if not spec.get("volumeName") and name != "":
        yield ObjectReference(STORAGE_CLASS, str(name or ""), user=user)


def _of_pod(spec: Body) -> Iterator[ObjectReference]:
    for key in ("initContainers", "containers"):
        for container in objects_in(spec.get(key)):
            yield from _of_container(container)
    for volume in objects_in(spec.get("volumes")):
        yield from _of_volume(volume)
    for secret in objects_in(spec.get("imagePullSecrets")):
        # The kubelet ignores a missing Secret, and pulls the image without it.
        yield from _named(SECRET, secret, "name", missing=UNKNOWN)
    for field, kind in _NAMING_FIELDS.items():
        if spec.get(field) != _DEFAULT_ACCOUNT:
            yield from _named(kind, spec, field)


def _of_container(container: Body) -> Iterator[ObjectReference]:
    for variable in objects_in(container.get("env")):
        source = as_mapping(variable.get("valueFrom"))
        for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
            given = as_mapping(source.get(field))
            yield from _named(kind, given, "name", keys=(given.get("key"),))
    for source in objects_in(container.get("envFrom")):
        yield from _named(CONFIG_MAP, as_mapping(source.get("configMapRef")), "name")
        yield from _named(SECRET, as_mapping(source.get("secretRef")), "name")


def _of_volume(volume: Body) -> Iterator[ObjectReference]:
    yield from _files(CONFIG_MAP, as_mapping(volume.get("configMap")))
    yield from _files(SECRET, as_mapping(volume.get("secret")), "secretName")
    for source in objects_in(as_mapping(volume.get("projected")).get("sources")):
        yield from _files(CONFIG_MAP, as_mapping(source.get("configMap")))
        yield from _files(SECRET, as_mapping(source.get("secret")))
    yield from _named(CLAIM, as_mapping(volume.get("persistentVolumeClaim")), "claimName")
    if template := as_mapping(as_mapping(volume.get("ephemeral")).get("volumeClaimTemplate")):
        yield from storage_class_of(template, f"the ephemeral volume {volume.get('name')}")


def _files(kind: str, source: Body, field: str = "name") -> Iterator[ObjectReference]:
    yield from _named(
        kind, source, field, keys=(item.get("key") for item in objects_in(source.get("items")))
    )


def _named(
    kind: str, given: Body, field: str, missing: str = NO, keys: Iterable[Any] = ()
) -> Iterator[ObjectReference]:
    """Yield the object that a field names. The API server rejects a value that is not a string."""
    name = given.get(field)
    if not isinstance(name, str) or not name:
        return
    if given.get("optional") is True:
        # Neither the object nor its keys have to exist.
        yield ObjectReference(kind, name, YES)
        return
    yield ObjectReference(
        kind, name, missing, frozenset(key for key in keys if isinstance(key, str))
    )
