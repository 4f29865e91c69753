"""How the simulated apiserver reads a request: paths, selectors, merge patches, errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dijob.kube import kinds

Body = dict[str, Any]

KINDS = {
    # The scheduling engines' kinds share a plural, so the plural does not identify the kind. The
    # body of an object names its own kind.
    kind.plural: (kind.version, kind.name)
    for kind in (
        *kinds.KINDS,
        *kinds.SCHEDULING.values(),
        *kinds.QUEUEING,
        *kinds.QUEUEING_CLUSTER,
    )
}
REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class No(Exception):
    """An error response of the apiserver."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body: Body = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "reason": reason or REASONS.get(status, ""),
            "code": status,
        }


@dataclass(frozen=True)
class Target:
    """An object, or a collection if `name` is "". A collection without a namespace covers all
    namespaces.
    """

    plural: str
    namespace: str = ""
    name: str = ""
    sub: str = ""

    @staticmethod
    def of(path: str) -> "Target":
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if not parts:  # discovery: the kinds of an API version
            return Target("")
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural, name, sub = (*parts, "", "")[:3]
        if plural not in KINDS:
            raise No(404, "the server could not find the requested resource")
        return Target(plural, namespace, name, sub)

    @property
    def whole(self) -> "Target":
        """Return the object of a subresource."""
        return Target(self.plural, self.namespace, self.name)


@dataclass(frozen=True)
class Selector:
    """The selectors of a list or watch."""

    target: Target
    labels: str = ""
    fields: str = ""

    def takes(self, body: Mapping[str, Any]) -> bool:
        meta = body["metadata"]
        if self.target.namespace not in ("", meta["namespace"]):
            return False
        carried = meta.get("labels") or {}
        by_label = all(
            _meets(term, carried.get(term.partition("=")[0])) for term in _terms(self.labels)
        )
        return by_label and all(
            _meets(term, _field(body, term.partition("=")[0])) for term in _terms(self.fields)
        )


def _terms(text: str) -> list[str]:
    return text.split(",") if text else []


def _meets(term: str, value: Any) -> bool:
    _, equals, wanted = term.partition("=")
    return value == wanted if equals else value is not None


def _field(body: Mapping[str, Any], path: str) -> Any:
    found: Any = body
    for name in path.split("."):
        found = (found or {}).get(name)
    return found


def merged(old: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7396) to a copy: stored objects never change in place."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merged(new.get(name), value)
    return new


def only_metadata(body: Mapping[str, Any]) -> Body:
    """Return an object as PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": body["metadata"],
    }
