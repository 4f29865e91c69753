"""Reads the connection settings from a kubeconfig, or from the service account of a pod.

The Kubernetes client reads the files. Only this module calls the client's loaders. The operator,
the HTTP server and the client for users all use this module.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config


class ConfigError(Exception):
    """A kubeconfig or a service account cannot be used. The text is the reason."""


class MalformedConfigError(ConfigError):
    """A file does not have the structure of a kubeconfig."""


@dataclass(frozen=True)
class KubeConfig:
    """The selected context of a kubeconfig: connection settings, namespace, and the user's
    fields.
    """

    settings: Configuration
    namespace: str
    user: Mapping[str, Any]


async def load_kubeconfig(
    files: str, context: str | None = None, *, persist: bool = True
) -> KubeConfig:
    """Read kubeconfigs (separated as in $KUBECONFIG), and run the user's exec plugin, if any.

    With `persist`, a token that was refreshed is written back to the file. Raises ConfigError.
    """
    settings = Configuration()
    with config_errors():
        loader = await load_kube_config(
            config_file=files,
            context=context,
            client_configuration=settings,
            persist_config=persist,
        )
        namespace = loader.current_context["context"].get("namespace") or "default"
        # The loader has no public attribute for the user's fields.
        user = loader._user.value if loader._user else {}
    return KubeConfig(settings, namespace, user)


def load_service_account() -> Configuration:
    """Read the service account of the pod in which this process runs. Raises ConfigError."""
    settings = Configuration()
    with config_errors():
        load_incluster_config(client_configuration=settings)
    return settings


@contextmanager
def config_errors() -> Iterator[None]:
    """Convert the Kubernetes client's errors about a configuration into ConfigError."""
    try:
        yield
    except (ConfigException, OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(" ".join(str(error).split())) from error
    except (TypeError, KeyError, AttributeError) as error:
        # The client accesses the fields of a file without validating the file's structure, so a
        # malformed file raises one of these errors.
        raise MalformedConfigError(repr(error)) from error
