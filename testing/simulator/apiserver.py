"""A simulated apiserver with its rules for writes. Stored objects are never changed in place."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dijob import names
from dijob.api.status import format_time
from dijob.core.render.scheduling import native

from simulator.objects import KINDS, Body, No, Selector, Target, merged

ANNOTATIONS_LIMIT = 256 * 1024
GRACE_SECONDS = 30
# The finalizer that keeps a PodGroup until no pod uses the group.
PROTECTION = "scheduling.k8s.io/podgroup-protection"
CHANGED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclass(frozen=True)
class Change:
    """One write as watches deliver it; `before` is None for a new object."""

    type: str
    target: Target
    body: Body
    before: Body | None
    version: int


@dataclass
class ApiServer:
    """Objects by path, their history, and the watches.

    `admission` is called before each creation. `pruned` are fields of a DIJob's status that an
    older CRD does not have, such as "goodput" or "lastRenewal.lost".
    """

    now: Callable[[], datetime]
    version: int = 10
    objects: dict[Target, Body] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    compacted: int = 0
    told: list[Callable[[Change], None]] = field(default_factory=list)
    admission: list[Callable[[Target, Body], None]] = field(default_factory=list)
    pruned: set[str] = field(default_factory=set)
    pages: dict[str, tuple[list[Body], int]] = field(default_factory=dict)

    def copy(self, now: Callable[[], datetime]) -> "ApiServer":
        """Return a copy with the same objects and without watches."""
        return replace(
            self,
            now=now,
            objects=dict(self.objects),
            history=list(self.history),
            pages=dict(self.pages),
            pruned=set(self.pruned),
            told=[],
            admission=[],
        )

    def get(self, target: Target) -> Body:
        found = self.objects.get(target.whole)
        if found is None:
            raise No(404, f'{target.plural} "{target.name}" not found')
        return found

    def find(self, selector: Selector) -> list[Body]:
        plural = selector.target.plural
        return [
            body
            for key, body in self.objects.items()
            if key.plural == plural and selector.takes(body)
        ]

    def page(self, selector: Selector, limit: int, token: str) -> tuple[list[Body], int, str]:
        """Return a page of a list (all objects if `limit` is 0), its version, and the token for the
        next page.
        """
        if token and token not in self.pages:
            raise No(410, "The provided continue parameter is too old")
        items, version = self.pages.pop(token) if token else (self.find(selector), self.version)
        if not limit or len(items) <= limit:
            return items, version, ""
        following = f"{version}-{len(self.pages)}-{len(items)}"
        self.pages[following] = items[limit:], version
        return items[:limit], version, following

    def check(self, target: Target, body: Mapping[str, Any]) -> Body:
        """Check an object as if it were being created (a dry run)."""
        target = Target(target.plural, target.namespace, body["metadata"]["name"])
        for admit in self.admission:
            admit(target, dict(body))
        return dict(body)

    def create(self, target: Target, body: Mapping[str, Any]) -> Body:
        """Create an object (POST to a collection)."""
        self.check(target, body)
        name = body["metadata"]["name"]
        target = Target(target.plural, target.namespace, name)
        if target in self.objects:
            raise No(409, f'{target.plural} "{name}" already exists', "AlreadyExists")
        _check(body)
        api_version, kind = KINDS[target.plural]
        meta = {
            **body["metadata"],
            "namespace": target.namespace,
            "uid": body["metadata"].get("uid") or f"uid-{self.version + 1}",
            "creationTimestamp": format_time(self.now()),
            "generation": 1,
            "managedFields": [{"manager": names.MANAGER, "operation": "Update"}],
        }
        if body.get("apiVersion") == native.API and target.plural == native.PLURAL:
            meta["finalizers"] = [PROTECTION]
        made = {"apiVersion": api_version, "kind": kind, **body, "metadata": meta}
        if target.plural == "pods":
            made["status"] = {"phase": "Pending"}
        return self._store("ADDED", target, made)

    def put(self, target: Target, body: Body) -> Body:
        """Store an object unchanged, as if another apiserver had written it."""
        return self._store("ADDED", target, body)

    def patch(self, target: Target, patch: Mapping[str, Any]) -> Body:
        """Apply a merge patch to an object or to its status."""
        old, meta = self.get(target), patch.get("metadata") or {}
        if (
            meta.get("resourceVersion", old["metadata"]["resourceVersion"])
            != old["metadata"]["resourceVersion"]
        ):
            raise No(
                409, f'Operation cannot be fulfilled on {target.plural} "{target.name}": {CHANGED}'
            )
        if meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise No(
                422, f'{target.plural} "{target.name}" is invalid: metadata.uid: field is immutable'
            )
        if target.sub:
            status = _without(patch.get("status") or {}, self.pruned)
            return self.replace(target, merged(old, {"status": status}))
        # The status is a subresource and is not changed here.
        new: Body = merged(old, {name: value for name, value in patch.items() if name != "status"})
        if new["metadata"].get("managedFields") == [{}]:
            new["metadata"]["managedFields"] = []
        _check(new)
        if target.plural == "pods" and _fixed(new) != _fixed(old):
            raise No(
                422,
                f'Pod "{target.name}" is invalid: spec: Forbidden: pod updates may not change'
                " fields",
            )
        return self.replace(target, new)

    def replace(self, target: Target, body: Body) -> Body:
        """Replace an existing object. Without a change, there is no write."""
        old = self.get(target)
        if body == old:
            return old
        if body.get("spec") != old.get("spec"):
            grown = old["metadata"].get("generation", 0) + 1
            body = {**body, "metadata": {**body["metadata"], "generation": grown}}
        released = old["metadata"].get("finalizers") and not body["metadata"].get("finalizers")
        if released and "deletionTimestamp" in body["metadata"]:
            return self.remove(target.whole)
        return self._store("MODIFIED", target.whole, body)

    def delete(self, target: Target, options: Mapping[str, Any] | None = None) -> Body:
        """Delete an object. A pod on a running node waits for its kubelet. An object with a
        finalizer waits for the removal of the finalizer.
        """
        body, options = self.get(target), options or {}
        only = options.get("preconditions") or {}
        for name in ("uid", "resourceVersion"):
            if only.get(name, body["metadata"][name]) != body["metadata"][name]:
                raise No(409, f"Precondition failed: {name} in precondition: {only[name]}")
        seconds = options.get("gracePeriodSeconds", _grace(target, body))
        if not seconds and not body["metadata"].get("finalizers"):
            return self.remove(target)
        if "deletionTimestamp" in body["metadata"] and seconds:
            return body
        end = format_time(self.now() + timedelta(seconds=seconds))
        meta = {**body["metadata"], "deletionTimestamp": end, "deletionGracePeriodSeconds": seconds}
        return self._store("MODIFIED", target.whole, {**body, "metadata": meta})

    def remove(self, target: Target) -> Body:
        """Remove an object. The DELETED event has a new version."""
        body = self.get(target)
        return self._store("DELETED", target.whole, body)

    def compact(self) -> None:
        """Forget the history: watches can start only at the current version or later, and the
        tokens of paged lists expire.
        """
        self.compacted = self.version
        self.history.clear()
        self.pages.clear()

    def since(self, version: str) -> Iterable[Change]:
        """Return the changes after a version."""
        if int(version) < self.compacted:
            raise No(410, f"too old resource version: {version} ({self.compacted})")
        return [change for change in self.history if change.version > int(version)]

    def _store(self, type_: str, target: Target, body: Body) -> Body:
        self.version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        before = self.objects.pop(target, None) if type_ == "DELETED" else self.objects.get(target)
        if type_ != "DELETED":
            self.objects[target] = body
        change = Change(type_, target, body, before, self.version)
        self.history.append(change)
        for tell in self.told:
            tell(change)
        return body


def _without(status: Mapping[str, Any], paths: Collection[str]) -> Body:
    """Return a status without the fields at these paths, such as "a" or "a.b"."""
    kept: Body = {}
    for name, value in status.items():
        below = [path.partition(".")[2] for path in paths if path.partition(".")[0] == name]
        if "" not in below:
            kept[name] = _without(value, below) if below and isinstance(value, dict) else value
    return kept


def _check(body: Mapping[str, Any]) -> None:
    annotations = body["metadata"].get("annotations") or {}
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        raise No(
            422, f"metadata.annotations: Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"
        )


def _fixed(body: Mapping[str, Any]) -> Body:
    """Return the immutable part of a pod's spec."""
    return {name: value for name, value in body["spec"].items() if name != "activeDeadlineSeconds"}


def _grace(target: Target, body: Mapping[str, Any]) -> int:
    if target.plural != "pods" or not body["spec"].get("nodeName"):
        return 0
    if (body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(body["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS))
