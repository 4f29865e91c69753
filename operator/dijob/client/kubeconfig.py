"""Finds the cluster, the credentials and the namespace.

They come from the user's kubeconfig, as with kubectl. A program in a pod without a kubeconfig uses
the pod's service account.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kubernetes.aio.client.configuration import Configuration

from dijob.client.errors import Unreachable
from dijob.kube.config import (
    ConfigError,
    MalformedConfigError,
    load_kubeconfig,
    load_service_account,
)

DEFAULT: Final = "~/.kube/config"
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Target:
    """An apiserver with credentials, and the default namespace."""

    settings: Configuration
    namespace: str
    source: str
    """The origin of the settings, for error messages."""
    again: Callable[[], Awaitable["Target"]]
    """Reads the settings again, because a token from an exec plugin can expire."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers for the user that the kubeconfig impersonates."""


async def read_kubeconfig(kubeconfig: str | None = None, context: str | None = None) -> Target:
    """Read the kubeconfig (`kubeconfig`, else $KUBECONFIG, else ~/.kube/config), and run its exec
    plugin if it has one. In a pod without a kubeconfig, use the service account.

    Raises Unreachable, which names the file and the problem.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT
    # As in client-go, if KUBECONFIG names a file that does not exist, this file is ignored.
    there = _existing_files(path)
    if not there and not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _in_pod()
    if not there:
        raise Unreachable(f"there is no kubeconfig at {path}: name one with --kubeconfig")
    try:
        # A refreshed token is not written back: the file belongs to kubectl and to the user.
        found = await load_kubeconfig(os.pathsep.join(there), context, persist=False)
    except MalformedConfigError as error:
        raise Unreachable(f"the file {path} is not a valid kubeconfig") from error
    except ConfigError as error:
        raise Unreachable(f"the kubeconfig {path} cannot be used: {error}") from error
    return Target(
        found.settings,
        found.namespace,
        f"the kubeconfig {path}",
        partial(read_kubeconfig, kubeconfig, context),
        impersonation=tuple(impersonation_headers(found.user)),
    )


def impersonation_headers(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the headers for `as` and the related fields of a kubeconfig's user.

    The kubernetes package ignores these fields, and would act with all permissions of the
    credentials.
    """
    if user.get("as"):
        yield "Impersonate-User", str(user["as"])
    if user.get("as-uid"):
        yield "Impersonate-Uid", str(user["as-uid"])
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(key), safe='')}", str(value)


def _existing_files(path: str) -> list[str]:
    return [part for part in path.split(os.pathsep) if Path(part).expanduser().is_file()]


def _in_pod() -> Target:
    try:
        settings = load_service_account()
        namespace = _POD_NAMESPACE.read_text().strip()
    except (ConfigError, OSError) as error:
        raise Unreachable(f"the pod's service account cannot be used: {error}") from error
    return Target(settings, namespace, "the pod's service account", read_kubeconfig)
