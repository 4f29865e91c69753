"""The connection to the apiserver: addresses, certificates and tokens as the Kubernetes client
reads them, requests by aiohttp.

The client's own calls copy each body field by field before they encode it, and look up what is the
same for all calls: half of the CPU of a write (docs/performance.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from pydantic_core import to_json

from dijob import __version__

USER_AGENT = f"dijob-operator/{__version__}"
# An event of a watch can be larger than aiohttp's own buffer.
BUFFER_BYTES = 2**21
MERGE_PATCH = "application/merge-patch+json"


class CredentialsError(Exception):
    """Nothing that can be read says where the apiserver is, and as whom to ask it."""


@dataclass(frozen=True)
class Call:
    """One request, as the apiserver sees it."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = "application/json"

    @property
    def url(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    @property
    def watches(self) -> bool:
        """Whether the answer goes on and on."""
        return "watch" in self.query

    @property
    def kind(self) -> str:
        """The kind of object that it is about, as RBAC names it: "pods", "dijobs/status"."""
        resource, subresource, _ = _parts(self.path)
        return f"{resource}/{subresource}" if subresource else resource

    @property
    def verb(self) -> str:
        """Its method; LIST where a GET asks for a collection, as in the apiserver's own metrics."""
        _, _, name = _parts(self.path)
        return "LIST" if self.method == "GET" and not name else self.method

    @property
    def headers(self) -> dict[str, str]:
        """What the body is, and what the answer is to be."""
        if self.body is None:
            return {"Accept": self.accept}
        kind = MERGE_PATCH if self.method == "PATCH" else "application/json"
        return {"Accept": self.accept, "Content-Type": kind}


def _parts(path: str) -> tuple[str, str, str]:
    """Resource, subresource and name in a path of the API; "" for what it does not have."""
    rest = path.split("/")[3 if path.startswith("/api/") else 4 :]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    return resource, subresource, name


class Connection:
    """Requests to one apiserver, with the credentials of its configuration. `identity` tells
    operators apart in the apiserver's audit log.
    """

    def __init__(self, settings: Configuration, identity: str = "") -> None:
        self._settings = settings
        # No bound: each watch has a connection for itself, two per namespace, and the writes must
        # find one too. Proxies are looked up once, below: aiohttp would do it for each call, a
        # fifth of the operator's CPU.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=RESTClientObject(settings).ssl_context),
            headers={"User-Agent": f"{USER_AGENT} ({identity})" if identity else USER_AGENT},
            proxy=settings.proxy or proxy_for(settings.host),
            read_bufsize=BUFFER_BYTES,
        )

    @staticmethod
    async def of(kubeconfig: str | None, identity: str = "") -> "Connection":
        """As the pod's service account, or as a kubeconfig says (for runs outside a cluster).

        Raises CredentialsError with the file and what is wrong with it.
        """
        settings = Configuration()
        try:
            if kubeconfig:
                await load_kube_config(config_file=kubeconfig, client_configuration=settings)
            else:
                load_incluster_config(client_configuration=settings)
            return Connection(settings, identity)
        except (ConfigException, OSError, ValueError, yaml.YAMLError) as error:
            said = " ".join(str(error).split())
            if kubeconfig:
                raise CredentialsError(
                    f"--kubeconfig {kubeconfig} cannot be used: {said}"
                ) from error
            raise CredentialsError(
                f"the pod's service account cannot be used ({said}). Outside a cluster, pass"
                " --kubeconfig FILE"
            ) from error
        except (TypeError, KeyError, AttributeError) as error:
            # Their reader takes it for granted that files have the right form.
            raise CredentialsError(
                f"--kubeconfig {kubeconfig} is not a valid kubeconfig"
                if kubeconfig
                else f"the pod's service account cannot be read: {error!r}"
            ) from error

    async def close(self) -> None:
        await self._session.close()

    async def request(self, call: Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """The answer, whose body is still to be read."""
        headers, settings = call.headers, self._settings
        # The token of a service account is renewed in its file, which this looks into in time.
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
    """The proxy that HTTPS_PROXY and the like name for a server's URL; None where they name none,
    or NO_PROXY has its host.
    """
    url = urlsplit(server)
    if url.hostname is None or proxy_bypass(url.hostname):
        return None
    return getproxies().get(url.scheme)
