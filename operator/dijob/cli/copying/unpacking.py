"""A tar stream into a folder of this machine: no member of it can get out of that folder."""

import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from dijob.cli.errors import CliError

_PIECE: Final = 2**20


@dataclass(frozen=True)
class Unpacked:
    """What was written."""

    files: int
    size: int
    """In bytes."""


def target(local: str, name: str) -> Path:
    """Where a file or folder of this name goes: into a folder that is there, else under the name
    that is given, as cp does it.
    """
    path = Path(local)
    return path / name if path.is_dir() or local.endswith("/") else path


def unpack(stream: IO[bytes], to: Path, name: str) -> Unpacked:
    """Write what the stream has below `name` to `to`. Raises CliError for a member that would be
    written elsewhere, or is no file or folder.

    By hand: tarfile's own filters are not in all Pythons 3.11 (Debian 12's has none).
    """
    files = size = 0
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                _write(archive, member, to, name)
                files += not member.isdir()
                size += member.size
    except tarfile.ReadError as error:
        # Nothing at all was sent where tar has failed, as its exit code says.
        if files:
            raise CliError(f"the container's tar stream broke: {error}") from error
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise CliError(f"{error.filename or to} cannot be written: {said}") from error
    return Unpacked(files, size)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, name: str) -> None:
    path = _placed(member.name, to, name)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.islnk():
        shutil.copyfile(_placed(member.linkname, to, name), path, follow_symlinks=False)
        return
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        raise CliError(f"the container sent {member.name}, which is no file and no folder")
    # A link that is there already is replaced, not followed.
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(content, file, _PIECE)
    path.chmod(0o600 | member.mode & 0o755)
    os.utime(path, (member.mtime, member.mtime))


def _placed(sent: str, to: Path, name: str) -> Path:
    """Where a member goes. Raises CliError where that is not in `to`, be it by a link that is there
    already.
    """
    parts = PurePosixPath(sent).parts
    if parts[:1] != (name,) or ".." in parts:
        raise CliError(f"the container sent {sent}, which was not asked for")
    path = to.joinpath(*parts[1:])
    inside = path == to or path.parent.resolve().is_relative_to(to.resolve())
    if not inside:
        raise CliError(f"{path} would be written outside of {to}: remove the link there")
    return path
