"""Runs commands in a rank's container through the apiserver's exec endpoint.

Each WebSocket message begins with a byte that names its channel: stdin, stdout, stderr, or the
final status.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

import aiohttp

from dijob.api.numbers import parse_natural
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import Unreachable
from dijob.client.resources import PODS

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
_ERROR: Final = 3
# Closes channel 0 in the protocol v5.channel.k8s.io.
_CLOSE: Final = b"\xff\x00"
# The buffer size of Go's io.Copy, so that the pieces are as large as those that kubectl sends.
_PIECE: Final = 32 * 1024

# The input of a command: complete, or as a stream.
Stdin = bytes | AsyncIterator[bytes] | None


@dataclass(frozen=True)
class Executed:
    """The output of a command and its exit code."""

    stdout: bytes
    stderr: bytes
    code: int


@dataclass(frozen=True)
class ContainerPlace:
    """A container of a pod."""

    namespace: str
    pod: str
    container: str


async def execute_command(
    connection: ClientConnection,
    place: ContainerPlace,
    command: Sequence[str],
    stdin: bytes | None = None,
    most: int | None = None,
) -> Executed:
    """Run a command to completion, and return its output.

    Raises ApiError if the apiserver rejects the request, and Unreachable if the command writes more
    than `most` bytes.
    """
    out: dict[int, list[bytes]] = {STDOUT: [], STDERR: [], _ERROR: []}
    size = 0
    async with aclosing(stream_command(connection, place, command, stdin)) as pieces:
        async for channel, piece in pieces:
            size += len(piece)
            if most is not None and size > most:
                raise Unreachable(f"a command in pod {place.pod} wrote more than {most >> 20} MiB")
            out.setdefault(channel, []).append(piece)
    end = b"".join(out[_ERROR])
    return Executed(b"".join(out[STDOUT]), b"".join(out[STDERR]), exit_code(end))


async def stream_command(
    connection: ClientConnection, place: ContainerPlace, command: Sequence[str], stdin: Stdin = None
) -> AsyncGenerator[tuple[int, bytes]]:
    """Run a command, and yield its output as (channel, bytes) pairs.

    The last pair has channel 3 and contains the status (see `exit_code`). `stdin` is sent
    concurrently. A command may exit before it has read all of `stdin`. If `stdin` raises an
    exception, the connection is closed, and the exception is re-raised here.
    """
    query = [("command", word) for word in command]
    query += [("container", place.container), ("stdout", "true"), ("stderr", "true")]
    if stdin is not None:
        query.append(("stdin", "true"))
    path = PODS.path_of(place.namespace, place.pod, "exec")
    ended = False
    async with connection.socket(ClientRequest("GET", path, query=tuple(query))) as socket:
        feeder = asyncio.create_task(_send_stdin(socket, stdin))
        try:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.BINARY and message.data:
                    channel = message.data[0]
                    ended = ended or channel == _ERROR
                    yield channel, message.data[1:]
        finally:
            feeder.cancel()
            with suppress(asyncio.CancelledError):
                await feeder
    # If a proxy or a kubelet restarts, it closes the socket without sending a status. Without this
    # check, the output would then look complete.
    if not ended:
        raise Unreachable(f"lost the connection to pod {place.pod} before the command exited")


async def _send_stdin(socket: aiohttp.ClientWebSocketResponse, stdin: Stdin) -> None:
    if stdin is None:
        return
    try:
        if isinstance(stdin, bytes):
            await _send_pieces(socket, stdin)
        else:
            async for piece in stdin:
                await _send_pieces(socket, piece)
        if socket.protocol == "v5.channel.k8s.io":
            await socket.send_bytes(_CLOSE)
    except (aiohttp.ClientError, ConnectionError):
        # The command has exited, or the connection is lost. The reader of the socket detects both
        # cases.
        pass
    except Exception:
        await socket.close()
        raise


async def _send_pieces(socket: aiohttp.ClientWebSocketResponse, data: bytes) -> None:
    for at in range(0, len(data), _PIECE):
        await socket.send_bytes(bytes([STDIN]) + data[at : at + _PIECE])


def exit_code(end: bytes) -> int:
    """Return the exit code from the final status, or 255 if the command could not be started."""
    try:
        status = json.loads(end or b"{}")
    except ValueError:
        return 255
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    found = next((one.get("message") for one in causes if one.get("reason") == "ExitCode"), None)
    code = parse_natural(str(found))
    return 255 if code is None else code
