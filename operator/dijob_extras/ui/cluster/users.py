"""Finds out which user sends a request. No I/O.

The user sends a token for the cluster, or comes through a proxy that has authenticated the user. A
proxy must authenticate with a secret, because every pod of the cluster can connect to the page and
send the same headers.
"""

import re
import secrets
from dataclasses import dataclass, field
from typing import Final

from multidict import CIMultiDictProxy

# Names that Kubernetes reserves, such as system:masters and the users of its components.
_RESERVED: Final = "system:"
_TOKEN: Final = re.compile(r"Bearer ([\x21-\x7e]{1,16384})")
# An HTTP header cannot carry other characters reliably.
_NAME: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?")
# A shorter secret could be guessed.
LEAST_SECRET: Final = 16


class AccessDenied(Exception):
    """A request is rejected with an HTTP status. The text is shown to the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class PageUser:
    """The credentials of a user: a token for the cluster, or a name and groups to impersonate."""

    token: str = field(default="", repr=False)
    name: str = ""
    groups: tuple[str, ...] = ()

    @property
    def impersonation(self) -> tuple[tuple[str, str], ...]:
        """The headers that impersonate the user."""
        if not self.name:
            return ()
        groups = (("Impersonate-Group", group) for group in self.groups)
        return ("Impersonate-User", self.name), *groups


@dataclass(frozen=True)
class ProxyTrust:
    """The headers in which a proxy names the user, and the users whom the proxy may name."""

    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    secret_header: str = "X-Dijob-Proxy-Secret"
    user_prefix: str = ""
    group_prefix: str = ""
    users: frozenset[str] = frozenset()
    """The names of the users who may be impersonated, each with the prefix `user_prefix`. If the
    set is empty, all users may be impersonated.
    """
    groups: frozenset[str] = frozenset()
    """The names of the groups that may be impersonated, each with the prefix `group_prefix`. The
    user's other groups are not impersonated.
    """


Headers = CIMultiDictProxy[str]


def find_token_user(headers: Headers) -> PageUser:
    """Return the user of the token in a request. Raises AccessDenied."""
    given = headers.getall("Authorization", [])
    if not given:
        raise AccessDenied(401, "log in with a token of this cluster")
    found = _TOKEN.fullmatch(given[0])
    if len(given) > 1 or not found:
        raise AccessDenied(401, "the Authorization header is not `Bearer TOKEN`")
    return PageUser(token=found[1])


def find_proxy_user(headers: Headers, trust: ProxyTrust, secret: str) -> PageUser:
    """Return the user that the proxy names in a request. Raises AccessDenied."""
    given = _only_value(headers, trust.secret_header)
    # Compared in constant time, so that the secret cannot be guessed byte by byte.
    if len(secret) < LEAST_SECRET or not secrets.compare_digest(given.encode(), secret.encode()):
        raise AccessDenied(
            401,
            f"the header {trust.secret_header} is missing or wrong: this page can be opened only"
            " through its login proxy",
        )
    plain = _only_value(headers, trust.user_header)
    if not plain:
        raise AccessDenied(401, f"the login proxy sent no user in the header {trust.user_header}")
    name = f"{trust.user_prefix}{plain}"
    claimed = [one.strip() for one in _only_value(headers, trust.groups_header).split(",")]
    groups = [f"{trust.group_prefix}{one}" for one in claimed if one]
    # A proxy that passes on such a name is misconfigured or under attack, so the request is
    # rejected.
    for one in (name, *groups):
        if one.casefold().startswith(_RESERVED):
            raise AccessDenied(403, f"names that begin with {_RESERVED} are not allowed here")
    if not _NAME.fullmatch(name):
        raise AccessDenied(403, "the user's name is longer than 256 characters or not ASCII")
    if trust.users and name not in trust.users:
        raise AccessDenied(403, f"the user {name} is not allowed to use this page")
    return PageUser(name=name, groups=tuple(sorted(trust.groups.intersection(groups))))


def _only_value(headers: Headers, name: str) -> str:
    """Return the value of a header; "" if it is missing. Raises AccessDenied if it occurs twice,
    because one of the values may come from the client.
    """
    values = headers.getall(name, [])
    if len(values) > 1:
        raise AccessDenied(400, f"the header {name} occurs {len(values)} times")
    return values[0].strip() if values else ""
