"""A Kubernetes client for these tests, which shares no code with the operator."""

import asyncio
import base64
import io
import json
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

import aiohttp
import manifests
import yaml
from cluster.waiting import until_async

Json = dict[str, Any]


class KubeError(Exception):
    """An API error; `status` is the HTTP status code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:300]}")
        self.status = status


@dataclass(frozen=True)
class Access:
    """The apiserver's URL, the administrator's token, and the certificate authority (`authority` is
    its certificate as PEM).
    """

    server: str
    token: str
    tls: ssl.SSLContext
    authority: str = ""

    @staticmethod
    def of(kubeconfig: Path) -> "Access":
        """Read a kubeconfig of the test cluster: one cluster, one user, a token."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        trust = ssl.create_default_context(cadata=authority)
        return Access(cluster["server"], user["token"], trust, authority)


class Session:
    """An HTTP session whose method `close` waits until its sockets are closed.

    A TLS connection that is closed during a response waits up to 30 s for the peer's close message.
    If the event loop ends before the connection is closed, a warning about the open connection
    makes the next test fail.
    """

    def __init__(self, access: Access, **settings: Any) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()
        connector = aiohttp.TCPConnector(ssl=access.tls, limit=0, socket_factory=self._socket)
        self.http = aiohttp.ClientSession(connector=connector, **settings)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        self._sockets.add(made)
        return made

    async def close(self) -> None:
        """Close all connections, and wait until they are closed."""
        await self.http.close()
        for made in self._sockets:
            with suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)

        async def missing() -> str:
            return " ".join(str(made) for made in self._sockets if made.fileno() != -1)

        await until_async("sockets closed", missing, 10)


class Kube:
    """Requests by path, lists and watches. As a context manager, it closes its connections."""

    def __init__(self, access: Access) -> None:
        self.access = access
        headers = {"Authorization": f"Bearer {access.token}", "User-Agent": "dijob-tests"}
        self._session = Session(access, headers=headers, timeout=aiohttp.ClientTimeout(total=60))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(self, method: str, path: str, body: Json | None = None, **headers: str) -> Json:
        """Send a request. Return the response as JSON; raise KubeError for 400 and above."""
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        given = {"Content-Type": "application/json", **headers}
        async with self._session.http.request(
            method, self.access.server + path, data=data, headers=given
        ) as response:
            text = await response.text()
            if response.status >= 400:
                raise KubeError(response.status, text)
            answer: Json = json.loads(text)
            return answer

    async def get(self, path: str) -> Json:
        return await self.call("GET", path)

    async def find(self, path: str) -> Json | None:
        """Return an object, or None if it does not exist."""
        try:
            return await self.get(path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, path: str, body: Json) -> Json:
        return await self.call("POST", path, body)

    async def patch(self, path: str, body: Json) -> Json:
        """Send a merge patch."""
        return await self.call(
            "PATCH", path, body, **{"Content-Type": "application/merge-patch+json"}
        )

    async def delete(self, path: str, **options: Any) -> None:
        """Delete an object; it may be gone already."""
        with suppress(KubeError):
            await self.call("DELETE", path, options or None)

    async def pod_token(self, namespace: str, pod: str, audience: str) -> str:
        """Return a token of the default service account, as the kubelet projects it into a pod."""
        uid = (await self.get(pods(namespace, pod)))["metadata"]["uid"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}
        spec = {"audiences": [audience], "boundObjectRef": bound}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
        answer = await self.create(path, {"spec": spec})
        return str(answer["status"]["token"])

    async def items(self, path: str) -> list[Json]:
        """Return all objects of a collection."""
        return (await self.get(path)).get("items") or []

    async def follow(self, path: str, version: str) -> AsyncGenerator[Json]:
        """Yield all events of a collection from a resourceVersion on. If the server ends a watch,
        the next watch continues from the resourceVersion of the last event.
        """
        while True:
            async with aclosing(self.events(path, version)) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        raise AssertionError(f"a watch has missed something: {event['object']}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    yield event
            await asyncio.sleep(0.1)

    async def events(self, path: str, version: str) -> AsyncGenerator[Json]:
        """Yield the events of one watch, from a resourceVersion until the watch ends."""
        url = f"{self.access.server}{path}?watch=true&resourceVersion={version}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.http.get(url, timeout=timeout) as response:
            pending = b""
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)


def jobs(namespace: str, name: str = "") -> str:
    """Return the path of DIJobs, or of one of them."""
    return _path(f"/apis/{manifests.API_VERSION}", namespace, "dijobs", name)


def pods(namespace: str, name: str = "") -> str:
    """Return the path of pods, or of one of them."""
    return _path("/api/v1", namespace, "pods", name)


def services(namespace: str, name: str = "") -> str:
    """Return the path of Services, or of one of them."""
    return _path("/api/v1", namespace, "services", name)


def _path(api: str, namespace: str, plural: str, name: str) -> str:
    return "/".join(filter(None, (api, "namespaces", namespace, plural, name)))


async def make_namespace(kube: Kube, name: str) -> None:
    """Create a namespace, and wait for its default service account, which pods need."""
    await kube.create("/api/v1/namespaces", {"metadata": {"name": name}})

    async def missing() -> str:
        there = await kube.find(f"/api/v1/namespaces/{name}/serviceaccounts/default")
        return "" if there else "no default service account"

    await until_async(f"namespace {name}", missing, 20)


def dijob(namespace: str, name: str, size: int = 4, **spec: Any) -> Json:
    """Return a DIJob for simulated pods."""
    arguments = ["--package", "m", "--main", "m.main", "--parallel-workers", "2"]
    main = {"image": "example/none", "command": ["ditask"], "args": arguments}
    made = manifests.dijob(
        name, main, **{"minReplicas": size, "maxReplicas": size, "service": "Always", **spec}
    )
    made["metadata"]["namespace"] = namespace
    return made
