"""The HTTP server of the channel.

Each launcher has one connection. The launcher sends its report as a request, and the operator
responds with the next peer list as soon as there is one. If the launcher has something else to
report meanwhile, it sends another request, and the operator responds to the previous one with 204.
So a waiting launcher costs no CPU time and little memory: one protocol object, and no task.

The server responds only to the launchers of a job's own pods. Each pod has a random key in its
spec. This key signs the requests of the pod's launcher and the responses to them. The signature of
a response also covers the nonce of the request, so an old response cannot be replayed. The source
address of a connection must be the address of the pod. No secrets are sent, so there is no TLS.
"""

import asyncio
import hmac
import json
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from dijob.controller import metrics
from dijob.controller.channel.launchers import Annotations, Launchers
from dijob.core.observed.progress import ProgressReport, parse_progress, parse_stack
from dijob.core.observed.reports import LauncherState
from dijob.core.observed.views import Pod
from dijob.names import GROUP

log = logging.getLogger(__name__)

# A peer list with 1,500 IPv6 addresses takes up 60 KB.
MOST_BODY, MOST_HEAD = 128 * 1024, 2048
# The length limit of the reason phrase of an error response.
MOST_REASON = 300
# A connection that has not sent a valid request within this time is closed.
PROOF_SECONDS = 5.0
# Three limits on the number of connections: in total, from one address, and without a valid request
# so far. A pod has one connection, or two for a moment when its container restarts.
MOST_CONNECTIONS, MOST_OF_ADDRESS, MOST_UNPROVEN = 20_000, 8, 2_000
# Maximum number of buffered bytes of incomplete requests, over all connections together.
MOST_BUFFERED = 16 * 1024 * 1024
# A connection may send a burst of this many requests, and this many per second on average. A
# launcher sends five requests in its lifetime, plus one every 3 s if its program reports progress.
BURST, PER_SECOND = 20.0, 2.0
# After the operator starts, all launchers connect within a second. The event loop accepts one
# connection per turn; the other connections wait in the kernel. Otherwise, a new job would have to
# wait until the reports of all launchers have been read. With 1,000 existing jobs, the first pod of
# a new job was created after 3.4 s instead of 6.2 s.
ACCEPTED_AT_ONCE, WAITING_CONNECTIONS = 1, 4096
SCHEME = "dijob "


class _RefusedRequest(Exception):
    """A request is refused with the HTTP status `status`, and its connection is closed."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def sign(key: str, *parts: bytes) -> str:
    """Return the signature of a message that consists of these parts, as hex."""
    return hmac.digest(key.encode(), b"\n".join(parts), "sha256").hex()


class ChannelServer:
    """Accepts the connections of launchers, within the limits above."""

    def __init__(self, launchers: Launchers) -> None:
        self.launchers = launchers
        self.buffered = 0
        self.unproven = 0
        self._by_address: dict[str, int] = {}
        self.open: set[LauncherConnection] = set()

    def admit(self, connection: "LauncherConnection", address: str) -> bool:
        """Count a new connection. Return False if there are too many connections."""
        count = self._by_address.get(address, 0)
        full = len(self.open) >= MOST_CONNECTIONS or self.unproven >= MOST_UNPROVEN
        if full or count >= MOST_OF_ADDRESS:
            return False
        self.open.add(connection)
        self._by_address[address] = count + 1
        metrics.LAUNCHERS.set(len(self.open))
        return True

    def discharge(self, connection: "LauncherConnection", address: str) -> None:
        """Count a closed connection."""
        self.open.discard(connection)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        metrics.LAUNCHERS.set(len(self.open))

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self.open):
            connection.close()


class LauncherConnection(asyncio.Protocol):
    """The connection of one launcher."""

    __slots__ = (
        "_address",
        "_admitted",
        "_budget",
        "_buffer",
        "_nonce",
        "_pod",
        "_server",
        "_timer",
        "_transport",
        "_when",
    )

    def __init__(self, server: ChannelServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._address = ""
        self._admitted = False
        self._buffer = b""
        self._pod: Pod | None = None
        self._nonce: str | None = None  # of the request that has no response yet
        self._budget, self._when = BURST, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and close it unless a valid request soon shows which pod it belongs
        to.
        """
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        _keep_alive(transport.get_extra_info("socket"))
        self._address = _plain_address(transport.get_extra_info("peername")[0])
        self._admitted = self._server.admit(self, self._address)
        if not self._admitted:
            transport.abort()
            return
        self._server.unproven += 1
        self._timer = asyncio.get_running_loop().call_later(PROOF_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the launcher is gone."""
        self._transport = None
        self._server.buffered -= len(self._buffer)
        self._buffer = b""
        if not self._admitted:
            return
        self._server.discharge(self, self._address)
        self._prove()
        if self._pod is not None:
            self._server.launchers.leave(self._pod, self)

    def data_received(self, data: bytes) -> None:
        """Read the requests that are complete."""
        if not self._admitted or self._transport is None or self._transport.is_closing():
            return
        self._server.buffered += len(data)
        self._buffer += data
        try:
            while self._next_request():
                pass
            if self._server.buffered > MOST_BUFFERED:
                raise _RefusedRequest(503, "too many incomplete requests")
        except _RefusedRequest as refused:
            self._refuse(refused)

    def _next_request(self) -> bool:
        """Read one request. Return False if it is incomplete."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 and len(self._buffer) > MOST_HEAD:
            raise _RefusedRequest(431, "the header is too long")
        if end < 0:
            return False
        fields = _read_head(self._buffer[:end])
        size = fields.get("content-length", "")
        if not (size.isascii() and size.isdigit()) or int(size) > MOST_BODY:
            raise _RefusedRequest(413, "the body is too long, or its length is missing")
        stop = end + 4 + int(size)
        if len(self._buffer) < stop:
            return False
        body = self._buffer[end + 4 : stop]
        self._buffer = self._buffer[stop:]
        self._server.buffered -= stop
        self._spend()
        self._receive(body, fields.get("authorization", ""))
        return True

    def _spend(self) -> None:
        now = asyncio.get_running_loop().time()
        self._budget = min(BURST, self._budget + (now - self._when) * PER_SECOND) - 1
        self._when = now
        if self._budget < 0:
            raise _RefusedRequest(429, "too many requests")

    def _receive(self, body: bytes, signature: str) -> None:
        """Check a request, and record its report."""
        if not self._server.launchers.serving:
            raise _RefusedRequest(503, "this replica is a standby")
        said = _read_report(body)
        pod = self._server.launchers.find_pod(said.job, said.pod)
        if pod is None:
            raise _RefusedRequest(503, f"pod {said.pod} is not known")
        genuine = SCHEME + sign(pod.made.channel_key, body)
        if not pod.made.channel_key or not hmac.compare_digest(signature, genuine):
            raise _RefusedRequest(403, f"the signature is not that of pod {said.pod}")
        if said.ip != self._address:
            raise _RefusedRequest(403, f"pod {said.pod} is not at {self._address}")
        if pod.ip and pod.ip != said.ip:
            # After a pod's sandbox has died, the launcher may connect from the new address before
            # the kubelet reports that address.
            raise _RefusedRequest(503, f"pod {said.pod} has a different address")
        if self._pod is not None and self._pod.uid != pod.uid:
            raise _RefusedRequest(409, f"pod {said.pod} has been replaced")
        if self._nonce is not None:
            self._write(b"HTTP/1.1 204 No Content\r\n\r\n")
        self._pod, self._nonce = pod, said.nonce
        self._prove()
        self._server.launchers.receive(pod, self, said.state, said.ip, said.has)
        self._server.launchers.note_progress(pod, said.progress, said.stack)
        if said.progress is not None:
            self._server.launchers.on_progress(pod.owner, said.progress)

    def _prove(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._server.unproven -= 1

    def answer(self, said: Annotations) -> bool:
        """Send a response with these annotations. Return False if no request is waiting for a
        response.
        """
        if self._nonce is None or self._pod is None:
            return False
        plain = {key.removeprefix(f"{GROUP}/"): text for key, text in said.items()}
        body = json.dumps(plain).encode()
        made = sign(self._pod.made.channel_key, self._nonce.encode(), body)
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nAuthorization: {SCHEME}{made}\r\n\r\n"
        )
        self._nonce = None
        self._write(head.encode() + body)
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _refuse(self, refused: _RefusedRequest) -> None:
        # After a change of leader, a standby refuses each launcher once or twice.
        level = logging.DEBUG if refused.status == 503 else logging.WARNING
        log.log(level, "refused a request from %s: %s", self._address, refused)
        metrics.REFUSED.labels(str(refused.status)).inc()
        # The launcher logs the reason phrase (channel/channel.go: readResponse). The pod's name is
        # from the request, so the reason may contain any characters.
        reason = " ".join(str(refused).split())[:MOST_REASON]
        head = f"HTTP/1.1 {refused.status} {reason}\r\nContent-Length: 0\r\nConnection: close\r\n"
        self._write(f"{head}\r\n".encode("ascii", "backslashreplace"))
        self.close()


@dataclass(frozen=True)
class _Said:
    """The content of a request (the launcher's channel/channel.go: message)."""

    job: str
    pod: str
    ip: str
    nonce: str
    state: LauncherState
    has: Annotations | None
    progress: ProgressReport | None
    stack: str | None


def _read_report(body: bytes) -> _Said:
    try:
        given: Mapping[str, Any] = json.loads(body)
        job, pod, ip, nonce = (str(given[name]) for name in ("job", "pod", "ip", "nonce"))
        has = given.get("has")
        if has is not None:
            has = {f"{GROUP}/{key}": str(text) for key, text in has.items()}
        state, progress = LauncherState(given["state"]), parse_progress(given.get("progress"))
        stack = parse_stack(given.get("stack"))
        return _Said(job, pod, ip, nonce, state=state, has=has, progress=progress, stack=stack)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _RefusedRequest(400, f"the request is not a report: {error!r}") from error


def _read_head(head: bytes) -> dict[str, str]:
    """Return the fields of a request's header, with names in lower case. Raises an error if the
    request is not a report.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    if first != "POST /v1/report HTTP/1.1":
        raise _RefusedRequest(404, f"only POST /v1/report is served, not {first[:80]!r}")
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): text.strip() for name, _, text in pairs}


def _keep_alive(connection: socket.socket) -> None:
    """Let the kernel close the connection if the node of the launcher is lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _plain_address(text: str) -> str:
    """Return an address as Kubernetes writes it. A dual-stack socket reports an IPv4 address as an
    IPv4-mapped IPv6 address.
    """
    address = ip_address(text.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


@asynccontextmanager
async def serve_channel(launchers: Launchers, port: int) -> AsyncIterator[None]:
    """Serve on all IPv4 and IPv6 addresses until the context exits."""
    server = ChannelServer(launchers)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(
        lambda: LauncherConnection(server), None, port, backlog=ACCEPTED_AT_ONCE
    )
    for each in listening.sockets:
        with socket.fromfd(each.fileno(), each.family, each.type) as same:
            same.listen(WAITING_CONNECTIONS)
    launchers.listen()
    try:
        yield
    finally:
        listening.close()
        server.close()
