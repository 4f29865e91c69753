"""Paths of objects in the API. The paths of unknown kinds are looked up in the apiserver."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import quote

from dijob import names
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import BadName, NotFound


@dataclass(frozen=True)
class Resource:
    """How the API serves a kind: its version, its plural, and whether it is namespaced."""

    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "") -> str:
        """Return the path of the collection in one or all namespaces. Raises BadName."""
        root = "/api" if "/" not in self.api_version else "/apis"
        inside = f"/namespaces/{_path_segment(namespace)}" if self.namespaced and namespace else ""
        return f"{root}/{self.api_version}{inside}/{self.plural}"

    def path_of(self, namespace: str, name: str, below: str = "") -> str:
        """Return the path of an object, or of a subresource (`below`) such as log.

        Raises BadName if the name is invalid. An empty name would give the path of the whole
        collection, and a delete would then remove all jobs.
        """
        return f"{self.path(namespace)}/{_path_segment(name)}" + (f"/{below}" if below else "")


def _path_segment(name: str) -> str:
    """Return a name as a segment of a path. Raises BadName.

    The rule is the apiserver's (apimachinery, pkg/api/validation/path: IsValidPathSegmentName).
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise BadName(f"{name!r} is not a valid object name: use a name that `list` prints")
    return quote(name, safe="")


DIJOBS: Final = Resource(names.API_VERSION, names.PLURAL)
PODS: Final = Resource("v1", "pods")
EVENTS: Final = Resource("v1", "events")
CONFIG_MAPS: Final = Resource("v1", "configmaps")

_KNOWN: Final = {
    (names.API_VERSION, names.KIND): DIJOBS,
    ("v1", "ConfigMap"): CONFIG_MAPS,
    ("v1", "Pod"): PODS,
}


@dataclass
class Kinds:
    """Looks up the resources of kinds. Each API version is requested once."""

    connection: ClientConnection
    _asked: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    async def of(self, body: Mapping[str, Any]) -> Resource:
        """Return the resource of an object's kind. Raises NotFound if the cluster lacks it."""
        version, kind = str(body["apiVersion"]), str(body["kind"])
        if known := _KNOWN.get((version, kind)):
            return known
        missing = f"the cluster has no kind {kind} in {version}"
        installed = f"{missing}: check that its CRD is installed"
        if version not in self._asked:
            root = "/apis" if "/" in version else "/api"
            parts = "/".join(map(_path_segment, version.split("/", 1)))
            try:
                answer = await self.connection.json(ClientRequest("GET", f"{root}/{parts}"))
            except NotFound as error:
                raise NotFound(error.status, error.reason, installed) from error
            self._asked[version] = answer.get("resources", [])
        for row in self._asked[version]:
            # Subresources such as dijobs/scale have entries of their own.
            if row["kind"] == kind and "/" not in row["name"]:
                return Resource(version, row["name"], row["namespaced"])
        kinds = {row["kind"].lower(): row["kind"] for row in self._asked[version]}
        if near := get_close_matches(kind.lower(), kinds, n=1):
            raise NotFound(404, "NotFound", f"{missing}: did you mean {kinds[near[0]]}?")
        raise NotFound(404, "NotFound", installed)


def is_owned_by(body: Mapping[str, Any], uid: str) -> bool:
    """Return whether an object has an owner with this uid."""
    owners = body["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)
