"""Copies from a job: runs tar in a container, and unpacks tar's output into a local folder.

If the rank is not running, a helper pod mounts the volume that contains the path, because exec
needs a running container.
"""

import asyncio
import posixpath
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

from dijob.api.problems import SpecError
from dijob.cli.calling import check_ranks
from dijob.cli.copying import places
from dijob.cli.copying.progress import CopyProgress
from dijob.cli.copying.threads import run_in_thread
from dijob.cli.copying.unpacking import Unpacked, unpack_tar
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo
from dijob.client import AsyncClient, NotFound, RankPod, TimedOut
from dijob.client.connection import ClientRequest
from dijob.client.executing import STDERR, STDOUT, ContainerPlace, exit_code, stream_command
from dijob.client.resources import PODS
from dijob.client.watching import watch_objects

# This time is usually enough to pull an image. After that, an error with the pod's condition is
# more useful than waiting.
_HELPER_SECONDS = 180
# If a file changes while GNU tar reads it, tar prints one of these messages and exits with 1. All
# other files are complete. The text has to be checked because busybox's tar exits with 1 for every
# error.
CHANGED = ("file changed as we read it", "removed before we read it")


async def copy_from_rank(client: AsyncClient, source: places.RankPath, to: Path) -> Unpacked:
    """Copy a path from a rank: from the rank's pod if the pod is running, else from the job's
    volume.
    """
    async with locate_path(client, source) as (place, path):
        return await _receive_tar(client, place, path, to)


@asynccontextmanager
async def locate_path(
    client: AsyncClient, source: places.RankPath, *, writes: bool = False
) -> AsyncGenerator[tuple[ContainerPlace, str]]:
    """Return a container that can access a rank's path, and the path in this container.

    If the rank's own container is running, it is returned. Otherwise a helper pod is created, and
    is deleted when the context exits.
    """
    job = await client.get(source.job)
    pods = await client.pods(job)
    pod = next((pod for pod in pods if pod.rank == source.rank), None)
    if pod is not None and pod.running:
        yield ContainerPlace(client.namespace, pod.name, pod.container), source.path
        return
    # If the job has become smaller, a rank whose pod is still terminating is also accepted.
    if pod is None:
        check_ranks(job, (source.rank,))
    try:
        model = job.model
    except SpecError as error:
        raise CliError(f"job {source.job} is invalid: {error}") from error
    found = places.find_volume(model, source, pod.node if pod else "")
    path = places.absolute_path(model, source)
    name = f"{source.job[:50]}-cp-{secrets.token_hex(3)}"
    verb = "write to" if writes else "read"
    echo(
        f"rank {source.rank} is not running: creating pod/{name} to {verb} the rank's volume",
        err=True,
    )
    body = places.helper_manifest(model, source, found, name, writes=writes)
    async with _open_helper_pod(client, body) as place:
        yield place, path


@asynccontextmanager
async def _open_helper_pod(
    client: AsyncClient, body: places.Body
) -> AsyncGenerator[ContainerPlace]:
    """Create a pod, and delete it when the context exits, even after Ctrl-C."""
    namespace, name = client.namespace, body["metadata"]["name"]
    await client.connection.json(ClientRequest("POST", PODS.path(namespace), body))
    try:
        await _wait_until_running(client, name)
        yield ContainerPlace(namespace, name, places.HELPER_CONTAINER)
    finally:
        with suppress(NotFound):
            await client.connection.json(ClientRequest("DELETE", PODS.path_of(namespace, name)))


async def _wait_until_running(client: AsyncClient, name: str) -> None:
    last = "no state yet"
    path = PODS.path(client.namespace)
    try:
        async with (
            asyncio.timeout(_HELPER_SECONDS),
            aclosing(
                watch_objects(client.connection, path, fieldSelector=f"metadata.name={name}")
            ) as states,
        ):
            async for found in states:
                if name not in found:
                    raise CliError(f"pod/{name} was deleted before it started")
                pod = RankPod(found[name])
                last = _state_message(pod)
                if pod.running:
                    return
                # The helper pod only runs `sleep`, so an early exit means that the image has no
                # `sleep`.
                if pod.started:
                    raise CliError(
                        f"pod/{name} terminated immediately ({pod.state}): its image probably has"
                        " no `sleep`"
                    )
    except TimeoutError:
        raise TimedOut(
            f"pod/{name} did not start within {_HELPER_SECONDS} s, so nothing was copied: {last}"
        ) from None


def _state_message(pod: RankPod) -> str:
    conditions = (pod.body.get("status") or {}).get("conditions") or ()
    wrong = (one.get("message") for one in conditions if one.get("status") == "False")
    return next((str(message) for message in wrong if message), pod.state)


async def _receive_tar(client: AsyncClient, place: ContainerPlace, path: str, to: Path) -> Unpacked:
    """Run tar in the container and unpack its output at the same time.

    The archive is not buffered, because a checkpoint may not fit into memory.
    """
    folder, name = posixpath.split(path.rstrip("/") or "/")
    if not name or name in (".", ".."):
        raise CliError(f"{path} is not the name of a file or folder", Exit.USAGE)
    # With the option h, tar sends the targets of symbolic links. So a symbolic link in the stream
    # is an attack.
    command = ["tar", "chf", "-", "-C", folder or ".", "--", name]
    code, stderr, progress = 0, "", CopyProgress()
    async with run_in_thread(lambda sent: unpack_tar(sent, to, name), "rb") as unpacking:

        async def sink(piece: bytes) -> None:
            progress.add(len(piece))
            await unpacking.write(piece)

        try:
            # If unpacking fails, the rest of the stream is not downloaded, and the error is raised
            # below.
            with suppress(ConnectionError):
                code, stderr = await drain_output(
                    stream_command(client.connection, place, command), sink
                )
        finally:
            progress.end()
    changed = code == 1 and any(words in stderr for words in CHANGED)
    if code and not changed:
        raise CliError(
            describe_tar_failure(place, f"cannot read {path}", code, stderr), Exit.NOT_FOUND
        )
    unpacked = unpacking.result.result()
    if changed:
        echo(f"Warning: a file changed while it was being copied: {stderr}", err=True)
    return unpacked


async def drain_output(
    pieces: AsyncGenerator[tuple[int, bytes]], sink: Callable[[bytes], Awaitable[None]]
) -> tuple[int, str]:
    """Return the exit code and stderr of a command. The command's stdout goes into the sink."""
    errors, last = [], b""
    async with aclosing(pieces):
        async for channel, piece in pieces:
            if channel == STDOUT:
                await sink(piece)
            elif channel == STDERR:
                errors.append(piece)
            else:
                last = piece
    message = b"".join(errors) or last
    return exit_code(last), " ".join(message.decode(errors="replace").split())


def describe_tar_failure(place: ContainerPlace, what: str, code: int, stderr: str) -> str:
    """Describe why tar failed in a container."""
    # Container runtimes differ in how they report a program that does not exist.
    if code in (126, 127, 255) or "executable file not found" in stderr:
        return f"the image of pod {place.pod} has no tar, which cp needs: {stderr}"
    return f"{what} in {place.pod}: {stderr}"
