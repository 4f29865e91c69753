"""Out of a job: tar in a container, through the apiserver, into a folder here."""

import asyncio
import posixpath
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

from dijob.api.problems import SpecError
from dijob.cli.copying import places
from dijob.cli.copying.progress import Progress
from dijob.cli.copying.threads import running
from dijob.cli.copying.unpacking import Unpacked, unpack
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo
from dijob.cli.ranks import known
from dijob.client import AsyncClient, NotFound, RankPod, TimedOut
from dijob.client.connection import Call
from dijob.client.executing import STDERR, STDOUT, Place, exit_code, stream
from dijob.client.resources import PODS
from dijob.client.watching import watched

_HELPER_SECONDS = 180
# What GNU tar says beside exit code 1 of a file that changed meanwhile: the others are all there.
# busybox's tar ends with 1 for whatever goes wrong.
CHANGED = ("file changed as we read it", "removed before we read it")


async def copy(client: AsyncClient, source: places.Source, to: Path) -> Unpacked:
    """Copy a path of a rank, from its pod if that runs, else from the job's volume."""
    async with located(client, source) as (place, path):
        return await _tar(client, place, path, to)


@asynccontextmanager
async def located(
    client: AsyncClient, source: places.Source, *, writes: bool = False
) -> AsyncGenerator[tuple[Place, str]]:
    """The container that has a path of a rank, and the path there: the rank's own if that runs,
    else one that is made for as long as it is needed.
    """
    job = await client.get(source.job)
    pods = await client.pods(job)
    pod = next((pod for pod in pods if pod.rank == source.rank), None)
    if pod is not None and pod.running:
        yield Place(client.namespace, pod.name, pod.container), source.path
        return
    if pod is None:
        known(job, (source.rank,))
    try:
        model = job.model
    except SpecError as error:
        raise CliError(f"the template of {source.job} cannot be read: {error}") from error
    found = places.mounted(model, source, pod.node if pod else "")
    path = places.absolute(model, source)
    name = f"{source.job[:50]}-cp-{secrets.token_hex(3)}"
    verb = "writes to" if writes else "reads"
    echo(f"rank {source.rank} does not run: pod/{name} {verb} its volume", err=True)
    body = places.helper(model, source, found, name, writes=writes)
    async with _helper(client, body) as place:
        yield place, path


@asynccontextmanager
async def _helper(client: AsyncClient, body: places.Body) -> AsyncGenerator[Place]:
    """A pod for as long as it is needed, also when the user interrupts."""
    namespace, name = client.namespace, body["metadata"]["name"]
    await client.connection.json(Call("POST", PODS.path(namespace), body))
    try:
        await _until_running(client, name)
        yield Place(namespace, name, places.HELPER_CONTAINER)
    finally:
        with suppress(NotFound):
            await client.connection.json(Call("DELETE", PODS.path_of(namespace, name)))


async def _until_running(client: AsyncClient, name: str) -> None:
    last = "it has no state yet"
    path = PODS.path(client.namespace)
    try:
        async with (
            asyncio.timeout(_HELPER_SECONDS),
            aclosing(
                watched(client.connection, path, fieldSelector=f"metadata.name={name}")
            ) as states,
        ):
            async for found in states:
                if name not in found:
                    raise CliError(f"pod/{name} was deleted before it ran")
                pod = RankPod(found[name])
                last = _why(pod)
                if pod.running:
                    return
                if pod.started:
                    raise CliError(f"pod/{name} ended at once ({pod.state}): has its image sleep?")
    except TimeoutError:
        raise TimedOut(f"pod/{name} does not run after {_HELPER_SECONDS} s: {last}") from None


def _why(pod: RankPod) -> str:
    conditions = (pod.body.get("status") or {}).get("conditions") or ()
    wrong = (one.get("message") for one in conditions if one.get("status") == "False")
    return next((str(message) for message in wrong if message), pod.state)


async def _tar(client: AsyncClient, place: Place, path: str, to: Path) -> Unpacked:
    """Run tar there and unpack here, at once: a checkpoint may be larger than the memory."""
    folder, name = posixpath.split(path.rstrip("/") or "/")
    if not name or name in (".", ".."):
        raise CliError(f"{path} has no name of its own: name a file or a folder", Exit.USAGE)
    # h: links are followed there, so that none comes here.
    command = ["tar", "chf", "-", "-C", folder or ".", "--", name]
    code, said, progress = 0, "", Progress()
    async with running(lambda sent: unpack(sent, to, name), "rb") as unpacking:

        async def sink(piece: bytes) -> None:
            progress.add(len(piece))
            await unpacking.write(piece)

        try:
            # If unpack fails, the rest is not downloaded, and its error is raised below.
            with suppress(ConnectionError):
                code, said = await drained(stream(client.connection, place, command), sink)
        finally:
            progress.end()
    changed = code == 1 and any(words in said for words in CHANGED)
    if code and not changed:
        raise CliError(refused(place, f"{path} cannot be read", code, said), Exit.NOT_FOUND)
    unpacked = unpacking.result.result()
    if changed:
        echo(f"Warning: a file was written to as it was copied: {said}", err=True)
    return unpacked


async def drained(
    pieces: AsyncGenerator[tuple[int, bytes]], sink: Callable[[bytes], Awaitable[None]]
) -> tuple[int, str]:
    """Exit code and stderr of a command, whose stdout goes into the sink."""
    errors, last = [], b""
    async with aclosing(pieces):
        async for channel, piece in pieces:
            if channel == STDOUT:
                await sink(piece)
            elif channel == STDERR:
                errors.append(piece)
            else:
                last = piece
    said = b"".join(errors) or last
    return exit_code(last), " ".join(said.decode(errors="replace").split())


def refused(place: Place, what: str, code: int, said: str) -> str:
    """Why tar has failed in a container, in a sentence."""
    if code in (126, 127, 255) or "executable file not found" in said:
        return f"{place.pod} has no program tar, by which files are copied: {said}"
    return f"{what} in {place.pod}: {said}"
