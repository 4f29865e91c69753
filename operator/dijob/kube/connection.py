"""Connects to the apiserver: the Kubernetes client reads the configuration, aiohttp sends requests.

The Kubernetes client reads kubeconfigs (config.py), certificates and tokens. The client's request
methods are not used. They copy every field of each request body before they encode it. For each
request, they also repeat look-ups whose results never change. These methods took half of the CPU
time of a write (docs/performance.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from pydantic_core import to_json

from dijob import __version__
from dijob.kube.config import (
    ConfigError,
    MalformedConfigError,
    config_errors,
    load_kubeconfig,
    load_service_account,
)

USER_AGENT = f"dijob-operator/{__version__}"
# A watch event is one line, and an object can be 1.5 MiB in size. aiohttp's default buffer is
# smaller, and a line that does not fit raises an error.
BUFFER_BYTES = 2**21
MERGE_PATCH = "application/merge-patch+json"


class CredentialsError(Exception):
    """There is no usable kubeconfig or service account."""


@dataclass(frozen=True)
class OperatorRequest:
    """One request to the apiserver."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = "application/json"

    @property
    def url(self) -> str:
        """The path with the query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def watches(self) -> bool:
        """Whether this is a watch, whose response does not end."""
        return "watch" in self.query

    @property
    def kind(self) -> str:
        """The resource as RBAC names it, such as "pods" or "dijobs/status"."""
        resource, subresource, _ = _split_path(self.path)
        return f"{resource}/{subresource}" if subresource else resource

    @property
    def verb(self) -> str:
        """The HTTP method, or LIST for a GET of a collection, as in the apiserver's own metrics."""
        _, _, name = _split_path(self.path)
        return "LIST" if self.method == "GET" and not name else self.method

    @property
    def headers(self) -> dict[str, str]:
        """The headers Accept and Content-Type."""
        if self.body is None:
            return {"Accept": self.accept}
        kind = MERGE_PATCH if self.method == "PATCH" else "application/json"
        return {"Accept": self.accept, "Content-Type": kind}


def _split_path(path: str) -> tuple[str, str, str]:
    """Return the resource, the subresource and the name in an API path, each "" if the path has
    none.
    """
    # "/api/v1/..." is the core group; all others have "/apis/GROUP/VERSION/...".
    rest = path.split("/")[3 if path.startswith("/api/") else 4 :]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    return resource, subresource, name


class OperatorConnection:
    """Requests to one apiserver with the credentials of a configuration. `identity` goes into the
    user agent, so that the replicas can be distinguished in the apiserver's audit log.
    """

    def __init__(self, settings: Configuration, identity: str = "") -> None:
        self._settings = settings
        # The number of connections is not limited, so that writes do not wait for watches. Each
        # namespace has two or three watches, and each watch occupies a connection. The proxy is
        # looked up only once. With `trust_env`, aiohttp looks it up for each request; this took a
        # fifth of the operator's CPU time.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(settings).ssl_context),
            headers={"User-Agent": f"{USER_AGENT} ({identity})" if identity else USER_AGENT},
            proxy=settings.proxy or proxy_for(settings.host),
            read_bufsize=BUFFER_BYTES,
        )

    @staticmethod
    async def of(kubeconfig: str | None, identity: str = "") -> "OperatorConnection":
        """Connect with the pod's service account or, outside a cluster, with a kubeconfig.

        Raises CredentialsError, whose message names the kubeconfig or service account that cannot
        be used.
        """
        try:
            if kubeconfig:
                settings = (await load_kubeconfig(kubeconfig)).settings
            else:
                settings = load_service_account()
            # Creating the connection reads the certificates, which can fail as well.
            with config_errors():
                return OperatorConnection(settings, identity)
        except MalformedConfigError as error:
            raise CredentialsError(
                f"--kubeconfig {kubeconfig} is not a valid kubeconfig"
                if kubeconfig
                else f"the pod's service account cannot be read: {error}"
            ) from error
        except ConfigError as error:
            raise CredentialsError(
                f"--kubeconfig {kubeconfig} cannot be used: {error}"
                if kubeconfig
                else f"the pod's service account cannot be used ({error}). Outside a cluster, pass"
                " --kubeconfig FILE"
            ) from error

    async def close(self) -> None:
        await self._session.close()

    async def request(
        self, call: OperatorRequest, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response; its body has not been read yet."""
        headers, settings = call.headers, self._settings
        # Service account tokens expire, and the kubelet replaces the token's file. This call reads
        # the file again when the cached token is too old.
        if token := await settings.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = token
        return await self._session.request(
            call.method,
            settings.host + call.url,
            headers=headers,
            data=None if call.body is None else to_json(call.body),
            timeout=timeout,
            server_hostname=settings.tls_server_name,
        )


def proxy_for(server: str) -> str | None:
    """Return the proxy for a URL, from HTTPS_PROXY and similar variables.

    Returns None if no proxy is set, or if NO_PROXY excludes the host.
    """
    url = urlsplit(server)
    if url.hostname is None or proxy_bypass(url.hostname):
        return None
    return getproxies().get(url.scheme)
