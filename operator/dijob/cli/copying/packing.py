"""Packs a local file or folder as a tar stream.

Symbolic links are followed and never sent, because their targets would differ in the container.
"""

import os
import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from dijob.cli.errors import CliError, Exit

_ROOT: Final = 0


@dataclass(frozen=True)
class PackedItem:
    """A local file or folder, and its name in the stream."""

    path: Path
    name: str
    size: int
    """The size in bytes; 0 for a folder."""
    folder: bool = False


def list_items(local: Path) -> list[PackedItem]:
    """List the files and folders at a path. Each folder precedes its content.

    Raises CliError (USAGE) for anything that is neither a file nor a folder, that cannot be read,
    or that contains itself through a link.
    """
    try:
        return list(_walk_items(local, local.resolve().name, ()))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CliError(f"cannot read {error.filename or local}: {reason}", Exit.USAGE) from error


def _walk_items(path: Path, name: str, above: Sequence[tuple[int, int]]) -> Iterator[PackedItem]:
    state = path.stat()
    if path.is_file():
        yield PackedItem(path, name, state.st_size)
        return
    if not path.is_dir():
        raise CliError(f"cannot copy {path}: it is neither a file nor a folder", Exit.USAGE)
    # Device and inode identify a folder, regardless of the links that lead to it.
    identity = (state.st_dev, state.st_ino)
    if identity in above:
        raise CliError(
            f"{path} is a link to a folder that contains it: remove the link", Exit.USAGE
        )
    yield PackedItem(path, name, 0, folder=True)
    for entry in sorted(os.listdir(path)):
        yield from _walk_items(path / entry, posixpath.join(name, entry), (*above, identity))


def pack_items(stream: IO[bytes], found: Sequence[PackedItem]) -> None:
    """Write the items to the stream as a tar archive.

    Raises CliError if a file cannot be read, and BrokenPipeError if the reader has closed its end.
    """
    # busybox's tar does not support all of the newer pax format.
    form = tarfile.GNU_FORMAT
    with tarfile.open(fileobj=stream, mode="w|", format=form, dereference=True) as archive:
        for item in found:
            try:
                archive.add(item.path, item.name, recursive=False, filter=_without_owner)
            except BrokenPipeError:
                raise
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise CliError(f"cannot read {item.path}: {reason}", Exit.USAGE) from error


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    # Local users and groups mean nothing in the container, where tar runs as the container's user.
    info.uid = info.gid = _ROOT
    info.uname = info.gname = ""
    return info
