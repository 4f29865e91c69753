"""Asks the API server, as the user, who the user is and what the user may read.

The API server authorizes a watch or a log only when it begins. So the page asks again while a
stream is open, and ends the stream if a permission was revoked or a token has expired.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from dijob import names
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import ApiError, DijobError
from dijob.client.resources import DIJOBS

_REVIEW: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_GROUP: Final = names.API_VERSION.partition("/")[0]


@dataclass(frozen=True)
class ReadRight:
    """A permission to read objects of a namespace ("": of all namespaces)."""

    verb: str
    resource: str
    namespace: str
    name: str = ""

    def body(self) -> dict[str, object]:
        """Return the SelfSubjectAccessReview that asks for this permission."""
        kind, _, below = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": _GROUP if kind == DIJOBS.plural else "",
            "resource": kind,
            "subresource": below,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }


def list_rights(namespace: str, name: str = "") -> tuple[ReadRight, ...]:
    """Return the permissions that a stream needs to read the list of jobs, or the job `name` and
    its logs.
    """
    watch = ReadRight("watch", DIJOBS.plural, namespace)
    if not name:
        return (ReadRight("list", DIJOBS.plural, namespace), watch)
    return (
        ReadRight("get", DIJOBS.plural, namespace, name),
        watch,
        ReadRight("watch", "pods", namespace),
        ReadRight("watch", "events", namespace),
        ReadRight("get", "pods/log", namespace),
    )


async def find_user_name(connection: ClientConnection) -> str:
    """Return the user's name; "" if the user may not create a SelfSubjectReview. Raises ApiError
    with the status 401 if the credentials are invalid.
    """
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await connection.json(ClientRequest("POST", _REVIEW, body))
    except ApiError as error:
        # An administrator can restrict system:basic-user. This role contains the permission to
        # create a SelfSubjectReview. Without this permission, the user can still use the page, but
        # the name is unknown. Without the permission to impersonate, the user must get an error.
        if error.status == HTTPStatus.FORBIDDEN and "impersonate" not in error.message:
            return ""
        raise
    return str(answer["status"]["userInfo"].get("username", ""))


async def find_rights(
    connection: ClientConnection, rights: Iterable[ReadRight]
) -> frozenset[ReadRight] | None:
    """Return the permissions in `rights` that the user has; None if the API server gives no answer.

    Invalid credentials have no permissions.
    """
    found = set[ReadRight]()
    for right in rights:
        try:
            answer = await connection.json(ClientRequest("POST", _ACCESS, right.body()))
        except DijobError as error:
            invalid = isinstance(error, ApiError) and error.status == HTTPStatus.UNAUTHORIZED
            return frozenset() if invalid else None
        if answer["status"].get("allowed"):
            found.add(right)
    return frozenset(found)


async def check_list(connection: ClientConnection, namespace: str) -> None:
    """Raise the API server's error if the user has no permission to list the jobs of a namespace
    ("": all).
    """
    path = DIJOBS.path(namespace)
    await connection.json(ClientRequest("GET", path, query=(("limit", "1"),)))
