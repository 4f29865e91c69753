"""The copy itself: tar in a container, through the apiserver, into a folder here."""

import asyncio
import os
import posixpath
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import click

from dijob.api.problems import SpecError
from dijob.cli.copying import places
from dijob.cli.copying.unpacking import Unpacked, unpack
from dijob.cli.errors import CliError, Exit
from dijob.client import AsyncClient, NotFound, RankPod, TimedOut
from dijob.client.connection import Call
from dijob.client.executing import STDERR, STDOUT, Place, exit_code, stream
from dijob.client.resources import PODS
from dijob.client.watching import watched

_HELPER_SECONDS = 180


async def copy(client: AsyncClient, source: places.Source, to: Path) -> Unpacked:
    """Copy a path of a rank, from its pod if that runs, else from the job's volume."""
    job = await client.get(source.job)
    pods = await client.pods(source.job)
    pod = next((pod for pod in pods if pod.rank == source.rank), None)
    if pod is not None and pod.running:
        return await _tar(client, Place(client.namespace, pod.name, pod.container), source.path, to)
    try:
        model = job.model
    except SpecError as error:
        raise CliError(f"the template of {source.job} cannot be read: {error}") from error
    found = places.mounted(model, source, pod.node if pod else "")
    path = places.absolute(model, source)
    name = f"{source.job[:50]}-cp-{secrets.token_hex(3)}"
    click.echo(f"rank {source.rank} does not run: pod/{name} reads its volume", err=True)
    async with _helper(client, places.helper(model, source, found, name)) as place:
        return await _tar(client, place, path, to)


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
            await client.connection.json(Call("DELETE", PODS.path(namespace, name)))


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
    there, here = os.pipe()
    with os.fdopen(there, "rb") as reader:
        unpacking = asyncio.create_task(asyncio.to_thread(unpack, reader, to, name))
        try:
            code, said = await _pour(client, place, command, here)
        finally:
            os.close(here)
            done = await asyncio.gather(unpacking, return_exceptions=True)
    if code:
        raise CliError(_refused(place, path, code, said), Exit.NOT_FOUND)
    (unpacked,) = done
    if isinstance(unpacked, BaseException):
        raise unpacked
    return unpacked


async def _pour(
    client: AsyncClient, place: Place, command: list[str], pipe: int
) -> tuple[int, str]:
    """Exit code and stderr of the command, whose stdout goes into the pipe."""
    errors, last = [], b""
    async with aclosing(stream(client.connection, place, command)) as pieces:
        async for channel, piece in pieces:
            if channel == STDOUT:
                # Whoever unpacks has given up, and says why.
                with suppress(BrokenPipeError):
                    await asyncio.to_thread(_write, pipe, piece)
            elif channel == STDERR:
                errors.append(piece)
            else:
                last = piece
    said = b"".join(errors) or last
    return exit_code(last), " ".join(said.decode(errors="replace").split())


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _refused(place: Place, path: str, code: int, said: str) -> str:
    if code in (126, 127, 255) or "executable file not found" in said:
        return f"{place.pod} has no program tar, by which files are copied: {said}"
    return f"{path} cannot be read in {place.pod}: {said}"
