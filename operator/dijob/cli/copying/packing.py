"""A file or folder of this machine as a tar stream; links are followed, so that none is sent."""

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
class Item:
    """A file or folder here, and its name in the stream."""

    path: Path
    name: str
    size: int
    """In bytes; 0 of a folder."""
    folder: bool = False


def items(local: Path) -> list[Item]:
    """What is at a path, under its own name, a folder before what is in it. Raises CliError (USAGE)
    for what is neither a file nor a folder, cannot be read, or has no end.
    """
    try:
        return list(_items(local, local.resolve().name, ()))
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise CliError(f"{error.filename or local} cannot be read: {said}", Exit.USAGE) from error


def _items(path: Path, name: str, above: Sequence[tuple[int, int]]) -> Iterator[Item]:
    state = path.stat()
    if path.is_file():
        yield Item(path, name, state.st_size)
        return
    if not path.is_dir():
        raise CliError(f"{path} is no file and no folder, and cannot be copied", Exit.USAGE)
    this = (state.st_dev, state.st_ino)
    if this in above:
        raise CliError(f"{path} is a link to a folder that it is in: remove it", Exit.USAGE)
    yield Item(path, name, 0, folder=True)
    for entry in sorted(os.listdir(path)):
        yield from _items(path / entry, posixpath.join(name, entry), (*above, this))


def pack(stream: IO[bytes], found: Sequence[Item]) -> None:
    """Write the stream. Owner and group are left to who unpacks. Raises CliError where a file
    cannot be read any more, BrokenPipeError where nobody reads the stream.
    """
    # Of GNU, as busybox's tar does not know all of the newer form.
    form = tarfile.GNU_FORMAT
    with tarfile.open(fileobj=stream, mode="w|", format=form, dereference=True) as archive:
        for item in found:
            try:
                archive.add(item.path, item.name, recursive=False, filter=_plain)
            except BrokenPipeError:
                raise
            except OSError as error:
                said = (error.strerror or str(error)).lower()
                raise CliError(f"{item.path} cannot be read: {said}", Exit.USAGE) from error


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = _ROOT
    info.uname = info.gname = ""
    return info
