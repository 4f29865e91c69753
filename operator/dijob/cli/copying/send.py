"""Copies into a job: packs local files as a tar stream, and unpacks it with tar in a container."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dijob.cli.copying import places
from dijob.cli.copying.copy import describe_tar_failure, drain_output, locate_path
from dijob.cli.copying.packing import PackedItem, list_items, pack_items
from dijob.cli.copying.progress import CopyProgress
from dijob.cli.copying.threads import run_in_thread
from dijob.cli.errors import CliError
from dijob.client import AsyncClient
from dijob.client.executing import ContainerPlace, execute_command, stream_command

_PIECE: Final = 2**18


@dataclass(frozen=True)
class Sent:
    """The result of a copy: what was written, and where."""

    files: int
    size: int
    """The total size in bytes."""
    where: str


async def copy_to_rank(client: AsyncClient, local: Path, to: places.RankPath) -> Sent:
    """Copy a file or folder to a path of a rank: into the rank's pod if the pod is running, else
    onto the job's volume.

    Raises CliError.
    """
    # Both ends are checked first, so that no helper pod is created for an invalid request.
    places.Inside.of(to.path)
    found = list_items(local)
    async with locate_path(client, to, writes=True) as (place, path):
        into = places.Inside.of(path)
        if not into.folder and await _is_folder(client, place, path):
            into = replace(into, folder=True)
        named = [replace(item, name=into.named(item.name)) for item in found]
        await _send_tar(client, place, into, named)
    files = sum(not item.folder for item in found)
    where = into.shown(named[0].name)
    return Sent(files, sum(item.size for item in found), f"{place.pod}:{where}")


async def _is_folder(client: AsyncClient, place: ContainerPlace, path: str) -> bool:
    """Whether the target is an existing folder. If so, the copy is placed in this folder, as with
    cp.

    If the image lacks the program `test`, the target is assumed not to be a folder.
    """
    done = await execute_command(client.connection, place, ["test", "-d", path])
    return done.code == 0


async def _send_tar(
    client: AsyncClient, place: ContainerPlace, into: places.Inside, found: Sequence[PackedItem]
) -> None:
    # With the option o, the files belong to the container's user, not to the owner in the stream.
    command = ["tar", "xof", "-", "-C", into.root]
    progress = CopyProgress(sum(item.size for item in found))
    async with run_in_thread(lambda sink: pack_items(sink, found), "wb") as packing:
        try:
            pieces = stream_command(
                client.connection, place, command, _read_chunks(packing.reader, progress)
            )
            code, stderr = await drain_output(pieces, _discard_output)
        finally:
            progress.end()
    problem = packing.result.exception()
    if isinstance(problem, CliError):
        raise problem
    if code:
        raise CliError(describe_tar_failure(place, f"cannot write {into.whole}", code, stderr))
    # tar may exit before it has read the padding at the end of the stream. In that case, the write
    # fails, but all files are complete.
    if problem is not None and not isinstance(problem, ConnectionError):
        raise problem


async def _discard_output(piece: bytes) -> None:
    """Ignore stdout: tar prints nothing there when it extracts."""


async def _read_chunks(
    reader: asyncio.StreamReader, progress: CopyProgress
) -> AsyncGenerator[bytes]:
    while piece := await reader.read(_PIECE):
        progress.add(len(piece))
        yield piece
