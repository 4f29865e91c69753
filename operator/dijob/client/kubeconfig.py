"""Which cluster, as whom, in which namespace: the user's own kubeconfig, else the pod that this
runs in.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from dijob.client.errors import Unreachable

DEFAULT: Final = "~/.kube/config"
_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Target:
    """An apiserver with credentials, and the namespace of calls that name none."""

    settings: Configuration
    namespace: str
    source: str
    """Where this comes from, in words."""
    again: Callable[[], Awaitable["Target"]]
    """Read it anew: a token that an exec plugin gave can end."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers for the user as whom the kubeconfig wants to act."""


async def target(kubeconfig: str | None = None, context: str | None = None) -> Target:
    """Read the kubeconfig (`kubeconfig`, else $KUBECONFIG, else ~/.kube/config), with its exec
    plugins. Without one, in a pod, its service account.

    Raises Unreachable with the file and what is wrong with it.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT
    there = _files(path)
    if not there and not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _in_pod()
    if not there:
        raise Unreachable(f"there is no kubeconfig at {path}: name one with --kubeconfig")
    settings = Configuration()
    try:
        loader = await load_kube_config(
            config_file=os.pathsep.join(there),
            context=context,
            client_configuration=settings,
            persist_config=False,
        )
    except (TimeoutError, ConfigException, OSError, ValueError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise Unreachable(f"the kubeconfig {path} cannot be used: {said}") from error
    except (TypeError, KeyError, AttributeError) as error:
        # Its reader takes it for granted that the file has the form of a kubeconfig.
        raise Unreachable(f"the file {path} has no form of a kubeconfig") from error
    namespace = loader.current_context["context"].get("namespace") or "default"
    user = loader._user.value if loader._user else {}
    return Target(
        settings,
        namespace,
        f"the kubeconfig {path}",
        partial(target, kubeconfig, context),
        impersonation=tuple(impersonation(user)),
    )


def impersonation(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The headers of `as` and its like in a kubeconfig's user. Kubernetes' Python client ignores
    these fields, and would act with all rights of the credentials.
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


def _files(path: str) -> list[str]:
    return [part for part in path.split(os.pathsep) if Path(part).expanduser().is_file()]


def _in_pod() -> Target:
    settings = Configuration()
    try:
        load_incluster_config(client_configuration=settings)
        namespace = _POD_NAMESPACE.read_text().strip()
    except (ConfigException, OSError) as error:
        raise Unreachable(f"the pod's service account cannot be used: {error}") from error
    return Target(settings, namespace, "the pod's service account", target)
