"""Looks up the objects to which a job's pods refer, with the user's permissions.

Objects in the job's own file count as existing, because `apply` creates them with the job.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dijob.cli.explain.existence import (
    default_class,
    is_bound,
    judge_missing,
    judge_object,
    merge_findings,
)
from dijob.cli.explain.fit import UNKNOWN, FitFinding
from dijob.cli.explain.references import (
    CLAIM,
    CONFIG_MAP,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
    ObjectReference,
    storage_class_of,
)
from dijob.cli.files import JobFile
from dijob.client import NotFound, Refused
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import raise_if_unauthenticated
from dijob.client.resources import CONFIG_MAPS, Resource

Data = dict[str, Any]

# The kinds that pods refer to, and how the API serves them.
REFERENCED: Final = {
    CONFIG_MAP: CONFIG_MAPS,
    SECRET: Resource("v1", "secrets"),
    CLAIM: Resource("v1", "persistentvolumeclaims"),
    SERVICE_ACCOUNT: Resource("v1", "serviceaccounts"),
    PRIORITY_CLASS: Resource("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    RUNTIME_CLASS: Resource("node.k8s.io/v1", "runtimeclasses", namespaced=False),
    STORAGE_CLASS: Resource("storage.k8s.io/v1", "storageclasses", namespaced=False),
}


async def check_objects(
    connection: ClientConnection,
    references: Sequence[ObjectReference],
    file: JobFile,
    namespace: str,
) -> list[FitFinding]:
    """Return one finding for each kind that the user may not read, one for each object with a
    problem, and one for all other objects.
    """
    look = _Lookup(connection, file, namespace)
    await asyncio.gather(*map(look.check, references))
    # Several ephemeral volumes, and several claims without a volume, can need the same
    # StorageClass.
    classes = {(one.name, one.user): one for one in look.classes}
    await asyncio.gather(*map(look.check, classes.values()))
    return [*merge_findings(look.found), *look.not_permitted()]


@dataclass
class _Lookup:
    """The lookups for one job. Their results are collected in `found` and `denied`."""

    connection: ClientConnection
    file: JobFile
    namespace: str
    found: list[FitFinding] = field(default_factory=list)
    denied: dict[str, list[str]] = field(default_factory=dict)
    classes: list[ObjectReference] = field(default_factory=list)

    async def check(self, reference: ObjectReference) -> None:
        """Look up an object, and add the finding about it."""
        try:
            body = await self._find(reference)
        except NotFound:
            self.found.append(judge_missing(reference))
            return
        except Refused as error:
            raise_if_unauthenticated(error)
            self.denied.setdefault(reference.kind, []).append(reference.name)
            return
        known = replace(reference, name=body["metadata"]["name"])
        self.found.append(judge_object(known, body))
        if reference.kind == CLAIM and not is_bound(body):
            self.classes.extend(storage_class_of(body, known.title))

    def not_permitted(self) -> Iterable[FitFinding]:
        """Yield a finding for each kind that the user may not read."""
        for kind, names in self.denied.items():
            row = REFERENCED[kind]
            where = f" in namespace {self.namespace}" if row.namespaced else ""
            # The default StorageClass has no name until it is found, so "the default" is shown
            # instead.
            listed = ", ".join(sorted(name or "the default" for name in names))
            text = (
                f"{kind} {listed}: you lack permission to read {row.plural}{where},"
                " so this was not checked"
            )
            yield FitFinding(UNKNOWN, text)

    async def _find(self, reference: ObjectReference) -> Data:
        """Return the object from the file or from the cluster. Raises NotFound or Refused."""
        if own := self.file.of_kind(reference.kind).get(reference.name):
            return own
        resource = REFERENCED[reference.kind]
        if reference.name:
            path = resource.path_of(self.namespace if resource.namespaced else "", reference.name)
            return await self.connection.json(ClientRequest("GET", path))
        listed = await self.connection.json(ClientRequest("GET", resource.path()))
        if found := default_class(listed.get("items") or ()):
            return dict(found)
        raise NotFound(404, "NotFound", reference.title)
