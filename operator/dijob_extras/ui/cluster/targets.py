"""How to connect to the API server as a user of the page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dijob.client.kubeconfig import Target
from dijob.kube.config import ConfigError, load_kubeconfig, load_service_account
from kubernetes.aio.client.configuration import Configuration

from dijob_extras.ui.cluster.users import AccessDenied, PageUser

# If users send their own tokens, the chart mounts only the certificate, and no token.
CA_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
_SOURCE: Final = "the page in the cluster"

# A function that returns the connection settings for a user.
Connect = Callable[[PageUser], Target]


@dataclass(frozen=True)
class ApiServer:
    """The address and the certificates of the API server."""

    host: str
    ca_file: str
    verify: bool = True
    server_name: str | None = None


def find_api_server(host: str, port: str, ca_file: str = CA_FILE) -> ApiServer:
    """Return the API server of the pod's cluster, from its environment. Raises ConfigError."""
    if not host or not port:
        raise ConfigError("the variables KUBERNETES_SERVICE_HOST and _PORT are not set")
    if not Path(ca_file).is_file():
        raise ConfigError(f"there is no certificate for the API server at {ca_file}")
    return ApiServer(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", ca_file
    )


async def read_api_server(kubeconfig: str) -> ApiServer:
    """Return the API server of a kubeconfig, without the credentials. Raises ConfigError."""
    settings = (await load_kubeconfig(kubeconfig, persist=False)).settings
    name = settings.tls_server_name
    return ApiServer(settings.host, settings.ssl_ca_cert or "", settings.verify_ssl, name)


def connect_with_token(server: ApiServer) -> Connect:
    """Return the function that connects with the user's token, and with no other credentials."""

    def connect(user: PageUser) -> Target:
        settings = Configuration()
        settings.host, settings.verify_ssl = server.host, server.verify
        settings.ssl_ca_cert = server.ca_file or None
        settings.tls_server_name = server.server_name
        settings.api_key["BearerToken"] = f"Bearer {user.token}"
        return _build_target(settings)

    return connect


def connect_by_impersonation(settings: Configuration) -> Connect:
    """Return the function that uses the credentials in `settings` to impersonate the user."""

    def connect(user: PageUser) -> Target:
        # Without these headers, a request would have the permissions of the page.
        if not user.name:
            raise AccessDenied(401, "the request names no user")
        return _build_target(settings, user.impersonation)

    return connect


async def read_own_credentials(kubeconfig: str | None) -> Configuration:
    """Return the credentials of the page's service account. Raises ConfigError."""
    if kubeconfig:
        return (await load_kubeconfig(kubeconfig, persist=False)).settings
    return load_service_account()


def _build_target(
    settings: Configuration, impersonation: tuple[tuple[str, str], ...] = ()
) -> Target:
    async def again() -> Target:
        # A user's credentials do not change. In a pod, `settings` reads the page's own token again
        # if it is more than a minute old.
        return target

    target = Target(settings, "default", _SOURCE, again, impersonation)
    return target
